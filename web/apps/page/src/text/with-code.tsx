/** A sentence of the server: words between backticks are code. */

export function WithCode({ text }: { text: string }) {
  const parts = text.split("`");
  // An odd backtick at the end opens nothing.
  if (parts.length % 2 === 0) return text;
  return parts.map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part));
}
