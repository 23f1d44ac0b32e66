/** The judge of simulated lives finds what is wrong with folders that were made by hand. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import {
  hasZeroSector,
  parseCheckpoint,
  parseImage,
  parseTokenImage,
  whyRefused,
} from "./image.ts";
import { Folder, Judge } from "./judge.ts";
import { PlantLedger } from "./ledger.ts";
import { type FileNode, Platter } from "./platter.ts";
import { Random } from "./random.ts";

const ONE = '{"id":1,"name":"Fern"}\n';
const TWO = '{"id":9007199254740993,"name":"Moss","tag":""}\n';

function image(...parts: string[]) {
  return parseImage(Buffer.from(parts.join("")));
}

function checkpoint(text: string) {
  const hex = (bytes: string) => crc32(bytes).toString(16).padStart(8, "0");
  const checked = `{"bytes":${text.length},"records":1,"crc32":"${hex(text)}"`;
  return parseCheckpoint(Buffer.from(`${checked},"check":"${hex(checked)}"}\n`));
}

test("an image has the plants of its lines, with every digit of their ids", () => {
  const { plants, bad, end } = image("\ufeff", ONE, " \r\n", TWO, "no plant\n", '{"id":3');
  assert.deepEqual(
    plants.map(({ id, content, offset }) => [id, content, offset]),
    [
      ["1", '["Fern"]', 0],
      ["9007199254740993", '["Moss",""]', 29],
    ],
  );
  assert.deepEqual([bad.length, end], [1, 85]);
});

test("a start has to refuse what differs from its checkpoint, or is damaged, or has two contents", () => {
  assert.equal(whyRefused(image(ONE, TWO), checkpoint(ONE)), undefined);
  assert.match(whyRefused(undefined, checkpoint(ONE)) ?? "", /missing/);
  assert.match(whyRefused(image(ONE.slice(1)), checkpoint(ONE)) ?? "", /shorter/);
  assert.match(whyRefused(image(TWO), checkpoint(ONE)) ?? "", /differs/);
  assert.match(whyRefused(image(ONE, "no plant\n"), undefined) ?? "", /damaged/);
  assert.match(
    whyRefused(image(ONE, ONE.replace("Fern", "Moss")), undefined) ?? "",
    /two contents/,
  );
  assert.match(whyRefused(image(ONE, '{"id":1,"name":"Moss"}'), undefined) ?? "", /two contents/);
});

test("a line with a whole sector of zeros is what a power cut leaves", () => {
  const lost = `${"x".repeat(512)}${"\0".repeat(512)}x\n`;
  assert.equal(whyRefused(image(lost), undefined), undefined);
  assert.equal(hasZeroSector(Buffer.from(lost), { offset: 0, bytes: lost.length }), true);
  const short = `${"x".repeat(600)}${"\0".repeat(500)}x\n`;
  assert.equal(hasZeroSector(Buffer.from(short), { offset: 0, bytes: short.length }), false);
});

test("the events of a token log are applied in their order", () => {
  const [revokedAt, a, b] = ["2027-01-01T00:00:01.034Z", "a".repeat(64), "b".repeat(64)];
  const token = { scopes: ["read"], createdAt: revokedAt };
  const created = { event: "created", name: "a", hash: a, ...token };
  const imported = { event: "imported", tokens: [{ name: "b", hash: b, revokedAt, ...token }] };
  const revoked = { event: "revoked", name: "a", revokedAt };
  const text = [created, imported, revoked].map((event) => JSON.stringify(event)).join("\n");
  const mixed = `{"event":"created","name":"c","hash":"${"a".repeat(63)}"}`;
  const tokens = parseTokenImage(Buffer.from(`${text}\n${mixed}\n`));
  assert.deepEqual([...tokens.created.keys()], [a, b]);
  assert.deepEqual([...tokens.revoked].sort(), [a, b]);
  assert.deepEqual(tokens.bad, [{ offset: text.length + 1, bytes: mixed.length + 1 }]);
});

const NONE: ReadonlySet<string> = new Set();

test("a ledger misses a plant that was acknowledged, and refuses one that nobody sent", () => {
  const ledger = new PlantLedger();
  ledger.send("1", '["Fern"]');
  ledger.judge(image(""), "before it is acknowledged", NONE);
  ledger.judge(image(ONE), "before it is acknowledged", NONE);
  assert.throws(() => ledger.judge(image(TWO), "it", NONE), { kind: "never sent" });
  ledger.owe("1", '["Fern"]', "it");
  assert.throws(() => ledger.judge(image(""), "it", NONE), { kind: "lost" });
  assert.throws(() => ledger.judge(image(ONE, ONE), "it", NONE), { kind: "twice" });
  ledger.judge(image(ONE, ONE), "it", new Set(["1"]));
  assert.throws(() => ledger.judge(image('{"id":1,"name":"Moss"}\n'), "it", NONE), {
    kind: "changed",
  });
  assert.throws(() => ledger.owe("1", '["Moss"]', "it"), { kind: "changed" });
});

test("a ledger notices that a plant was acknowledged before the one ahead of it was sent", () => {
  const ledger = new PlantLedger();
  ledger.send("1", '["Fern"]');
  ledger.owe("1", '["Fern"]', "it");
  ledger.send("9007199254740993", '["Moss",""]');
  ledger.judge(image(ONE, TWO), "it", NONE);
  assert.throws(() => ledger.judge(image(TWO, ONE), "it", NONE), { kind: "order" });
});

function makeFolder(text: string) {
  const platter = new Platter({ wallMs: () => 0 });
  const judge = new Judge(platter, () => 0);
  const folder = new Folder("/data");
  platter.create("/data", "folder");
  const node = platter.create(folder.logPath, "file") as FileNode;
  node.write(Buffer.from(text), 0);
  folder.plants.send("1", '["Fern"]');
  return { platter, judge, folder };
}

test("a start that serves bytes which a cut would lose is found", () => {
  const { platter, judge, folder } = makeFolder(ONE);
  const before = judge.view(folder);
  assert.throws(() => judge.judgeServed(folder, before, 1), { kind: "not durable" });
  platter.commitAll();
  judge.judgeServed(folder, before, 1);
  assert.throws(() => judge.judgeServed(folder, before, 2), { kind: "index" });
});

test("bytes that were cut without a copy, or with one that a cut would lose, are missed", () => {
  const { platter, judge, folder } = makeFolder(`${ONE}torn`);
  platter.commitAll();
  const before = judge.view(folder);
  const log = platter.find(folder.logPath) as FileNode;
  log.truncate(ONE.length);
  assert.throws(() => judge.judgeRemoved(folder, before, "it"), { kind: "removed" });
  const copy = platter.create(`${folder.logPath}.quarantine-1`, "file") as FileNode;
  copy.write(Buffer.from("torn"), 0);
  assert.throws(() => judge.judgeRemoved(folder, before, "it"), { kind: "removed" });
  platter.commitAll();
  judge.judgeRemoved(folder, before, "it");
});

test("a start may refuse what others damaged, and nothing else", () => {
  const { platter, judge, folder } = makeFolder(`${ONE}no plant\n`);
  platter.commitAll();
  assert.throws(() => judge.judgeRefused(folder, judge.view(folder), ""), { kind: "refused" });
  judge.absorb(folder, "an edit");
  judge.judgeRefused(folder, judge.view(folder), "");
});

test("a cut takes what others never synced, and nothing else", () => {
  const { platter, judge, folder } = makeFolder(ONE);
  folder.plants.owe("1", '["Fern"]', "it");
  judge.platter = platter.crash("cut", new Random("a"), "nothing");
  assert.throws(() => judge.judgeLog(folder, "it"), { kind: "lost" });
  folder.unsynced = "all";
  judge.absorbCut(folder, judge.tokensOf(folder));
  judge.judgeLog(folder, "it");
});
