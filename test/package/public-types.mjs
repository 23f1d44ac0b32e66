/**
 * Compares the declarations of a package with the exports of its entry points, and prints the differences
 * as JSON. `forgotten` are types in public signatures that no entry point exports, so users cannot name
 * them. `unreachable` are exports of other files that no entry point exports, so users cannot reach them.
 *
 * Usage: node public-types.mjs ENTRY.d.ts ...
 */
import path from "node:path";
import ts from "typescript";

const files = process.argv.slice(2).map((file) => path.resolve(file));
const program = ts.createProgram(files, {
  module: ts.ModuleKind.NodeNext,
  target: ts.ScriptTarget.ES2023,
  types: ["node"],
  typeRoots: [path.join(import.meta.dirname, "../../node_modules/@types")],
  strict: true,
});
const checker = program.getTypeChecker();
const home = path.dirname(files[0]);

const exportsOf = (file) => checker.getExportsOfModule(checker.getSymbolAtLocation(file));
const nameable = new Set(
  files.flatMap((file) => exportsOf(program.getSourceFile(file))).map(original),
);
const forgotten = new Set();
for (const symbol of nameable) for (const declaration of symbol.declarations) visit(declaration);
const unreachable = program
  .getSourceFiles()
  .filter((file) => file.fileName.startsWith(home))
  .flatMap(exportsOf)
  .map(original)
  .filter((symbol) => !nameable.has(symbol));
process.stdout.write(
  JSON.stringify({
    exported: nameable.size,
    forgotten: [...forgotten],
    unreachable: unreachable.map(({ name }) => name),
  }),
);

/** The declared symbol, without the aliases of imports and exports. */
function original(symbol) {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
}

function visit(node) {
  // A declaration names private members, but they are not public.
  if (ts.getCombinedModifierFlags(node) & ts.ModifierFlags.Private) return;
  if (ts.isIdentifier(node) && isReference(node)) judge(node);
  ts.forEachChild(node, visit);
}

/** Whether the identifier names a type, or a value whose type is asked for. */
function isReference({ parent }) {
  return (
    ts.isTypeReferenceNode(parent) ||
    ts.isExpressionWithTypeArguments(parent) ||
    ts.isTypeQueryNode(parent) ||
    ts.isImportTypeNode(parent) ||
    ts.isQualifiedName(parent)
  );
}

function judge(identifier) {
  const symbol = original(checker.getSymbolAtLocation(identifier));
  if (symbol.flags & ts.SymbolFlags.TypeParameter || nameable.has(symbol)) return;
  const isOurs = symbol.declarations?.some((declaration) =>
    declaration.getSourceFile().fileName.startsWith(home),
  );
  if (isOurs) forgotten.add(symbol.name);
}
