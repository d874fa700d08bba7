/**
 * Where the server is: `/`, or a path such as `/hames/` that a reverse proxy has put in front of it.
 *
 * The page is at that path and at `t/ID` below it. Its icon is always beside the first, whichever of the two this is.
 */

const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]');

export const BASE = icon === null ? "/" : new URL(".", icon.href).pathname;

/** The address of what the server calls `/path`. Other addresses are left as they are. */
export function serverUrl(path: string): string {
  return path.startsWith("/") && !path.startsWith("//") ? BASE + path.slice(1) : path;
}
