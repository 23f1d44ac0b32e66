/**
 * Other programs and people, who change files behind the back of the program: they copy, append, edit, remove.
 *
 * Invariant. None of them syncs, except sync(1): what they did is seen at once, and a cut may take it.
 */
import path from "node:path";
import { type FileNode, type Platter, SystemError } from "./platter.ts";
import type { Random } from "./random.ts";
import type { RuleName } from "./rules.ts";

export class Others {
  readonly #platter: Platter;
  readonly #random: Random;
  #number = 0;

  constructor(platter: Platter, random: Random) {
    this.#platter = platter;
    this.#random = random.fork("others");
  }

  #count(rule: RuleName): void {
    this.#platter.rules.count(rule);
  }

  /** What a program sees of a file; `undefined` if there is none. */
  read(filePath: string): Buffer | undefined {
    const node = this.#platter.find(filePath);
    return node?.kind === "file" ? Buffer.from(node.bytes) : undefined;
  }

  /** Makes a file with this content, or gives it to the one there is. */
  put(filePath: string, bytes: Buffer): void {
    const found = this.#platter.find(filePath);
    const node = found ?? this.#platter.create(filePath, "file");
    if (node.kind !== "file") throw new SystemError("EISDIR", "open", filePath);
    this.#platter.truncate(node, 0);
    this.#write(node, bytes, 0);
  }

  /** May fail later, when nobody looks. */
  #write(node: FileNode, bytes: Buffer, position: number): void {
    const random = this.#random.fork(`write ${++this.#number}`);
    this.#platter.write(node, bytes, position);
    if (this.#platter.rules.fires("sync: a write behind fails", random)) {
      this.#platter.failSync(node, node.dirt(), random);
    }
  }

  /** Copies a folder and all files in it, as `cp -r` does. */
  copyFolder(from: string, to: string): void {
    this.#count("others: a copied folder");
    this.#copyFolder(from, to);
  }

  #copyFolder(from: string, to: string): void {
    if (this.#platter.find(to) === undefined) this.#platter.create(to, "folder", "mkdir");
    for (const [name, node] of this.#platter.folder(from, "scandir").names) {
      const [source, target] = [path.join(from, name), path.join(to, name)];
      if (node.kind === "folder") this.#copyFolder(source, target);
      else if (node.kind === "file") this.put(target, Buffer.from(node.bytes));
    }
  }

  append(filePath: string, bytes: Buffer): void {
    this.#count("others: appended lines");
    const node = this.#platter.find(filePath);
    if (node?.kind === "file") this.#write(node, bytes, node.size);
    else this.put(filePath, bytes);
  }

  /** Like `append`, while a process holds the lock. */
  appendPastLock(filePath: string, bytes: Buffer): void {
    this.#count("others: a write past the lock");
    const node = this.#platter.find(filePath);
    if (node?.kind === "file") this.#write(node, bytes, node.size);
  }

  /** An editor that writes into the file. */
  edit(filePath: string, bytes: Buffer): void {
    this.#count("others: an edit in place");
    this.put(filePath, bytes);
  }

  /** An editor that writes a new file and renames it. */
  replace(filePath: string, bytes: Buffer): void {
    this.#count("others: an edit by replacement");
    const aside = `${filePath}~`;
    this.put(aside, bytes);
    this.#platter.rename(aside, filePath);
  }

  /** Puts back a checkpoint of an earlier time. */
  replaceCheckpoint(filePath: string, bytes: Buffer): void {
    this.#count("others: an old checkpoint");
    this.put(filePath, bytes);
  }

  remove(filePath: string): void {
    this.#count("others: removed");
    this.#remove(filePath);
  }

  #remove(filePath: string): void {
    const node = this.#platter.find(filePath);
    if (node?.kind === "folder") {
      for (const name of [...node.names.keys()]) this.#remove(path.join(filePath, name));
      this.#platter.removeFolder(filePath);
    } else this.#platter.unlink(filePath);
  }

  move(from: string, to: string): void {
    this.#count("others: moved");
    this.#platter.rename(from, to);
  }

  /** sync(1). */
  sync(): void {
    this.#count("others: sync(1)");
    this.#platter.commitAll();
  }
}
