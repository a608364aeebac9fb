// The book of the worker: what it has counted, and the position up to which it has. Both are in one file, and change together: there is no
// moment at which an order is counted and the position does not say so.
import { open, readFile, rename } from "node:fs/promises";

/** Opens the book in a file; a new one begins with the first publication of the stream. */
export async function openBook(file) {
  const read = async () => JSON.parse(await readFile(file, "utf8"));
  const book = await read().catch(error => {
    if (error.code !== "ENOENT") throw error;
    return { position: { offset: 0, epoch: "" }, sold: {}, lost: 0 };
  });
  /** Writes the book to the disk, whole or not at all. */
  const save = async () => {
    const next = await open(`${file}.next`, "w");
    await next.writeFile(JSON.stringify(book));
    await next.sync();
    await next.close();
    await rename(`${file}.next`, file);
  };
  return { book, save };
}
