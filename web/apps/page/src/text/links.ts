/** Which addresses in a model's text may be followed. Anything else is shown as the words it is. */

const SCHEMES: ReadonlySet<string> = new Set(["http:", "https:", "mailto:"]);

/** The address, or nothing. Relative ones lead nowhere a reader wants to go: they are paths in a workspace. */
export function safeLink(href: string): string | undefined {
  // A parser forgives tabs and newlines inside a scheme; we do not.
  if (/[\u0000-\u0020\u007f]/.test(href.trim())) return undefined;
  try {
    const url = new URL(href.trim());
    return SCHEMES.has(url.protocol) && !(url.username || url.password) ? url.href : undefined;
  } catch {
    return undefined;
  }
}
