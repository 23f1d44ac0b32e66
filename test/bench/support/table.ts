/** A table in Markdown, aligned for terminals: words to the left, numbers to the right. */
export function formatTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const columns = head.map((title, at) => {
    const cells = rows.map((row) => row[at] ?? "");
    return {
      width: Math.max(title.length, ...cells.map((cell) => cell.length)),
      isText: at === 0 || cells.some((cell) => /^[a-z]/i.test(cell)),
    };
  });
  const format = (cells: readonly string[]) => {
    const padded = columns.map(({ width, isText }, at) => {
      const cell = cells[at] ?? "";
      return isText ? cell.padEnd(width) : cell.padStart(width);
    });
    return `| ${padded.join(" | ")} |`;
  };
  const rules = columns.map(({ width, isText }) => `${"-".repeat(width - 1)}${isText ? "-" : ":"}`);
  return [head, rules, ...rows].map(format).join("\n");
}
