/** Names that only this client gives out: 1–64 of `[A-Za-z0-9_-]`. */

const ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz";

export function newId(prefix: string): string {
  // Not `randomUUID`: it is missing on pages served over plain HTTP from anything but localhost.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `${prefix}_${Array.from(bytes, (byte) => ALPHABET[byte % ALPHABET.length]).join("")}`;
}
