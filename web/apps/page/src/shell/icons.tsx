/** Icons, drawn here: 16 units, one stroke, the colour of the text around them. */

import type { ReactNode, SVGProps } from "react";

const PATHS = {
  alert: <path d="M8 1.8 14.6 13.5H1.4ZM8 6.2v3.4M8 11.6v.1" />,
  folder: <path d="M1.8 4.2V12.6h12.4V5.4H7.6L6.2 3.4H1.8Z" />,
  archive: <path d="M1.8 3h12.4v3H1.8ZM3 6v7.2h10V6M6.3 8.6h3.4" />,
  arrowDown: <path d="M8 2.5v11M3.5 9 8 13.5 12.5 9" />,
  arrowUp: <path d="M8 13.5v-11M3.5 7 8 2.5 12.5 7" />,
  attach: <path d="M13.2 7.3 7.8 12.7a3.2 3.2 0 0 1-4.5-4.5l5.8-5.8a2.1 2.1 0 0 1 3 3L6.4 11a1 1 0 0 1-1.5-1.4l5-5" />,
  bell: <path d="M3.5 11.5V7a4.5 4.5 0 0 1 9 0v4.5ZM2 11.5h12M6.7 14h2.6" />,
  check: <path d="m2.8 8.6 3.4 3.6 7-8.2" />,
  chevron: <path d="m6 3.5 4.5 4.5L6 12.5" />,
  clock: <path d="M8 1.7a6.3 6.3 0 1 0 .1 0M8 4.5V8l2.6 1.6" />,
  close: <path d="m3.5 3.5 9 9m0-9-9 9" />,
  command: <path d="m2.5 4 4 4-4 4M8.5 12h5" />,
  copy: <path d="M5.5 5.5h8v8h-8ZM10.5 5.5v-3h-8v8h3" />,
  device: <path d="M4.2 1.8h7.6v12.4H4.2ZM7 12h2" />,
  diff: <path d="M8 2v7M4.5 5.5h7M4.5 13h7" />,
  edit: <path d="m2.5 13.5.7-3.2 7.6-7.6a1.4 1.4 0 0 1 2 0l.5.5a1.4 1.4 0 0 1 0 2l-7.6 7.6Z" />,
  download: <path d="M8 2v8M4.8 7 8 10.2 11.2 7M2.5 10v3.5h11V10" />,
  export: <path d="M8 10V2M4.8 5 8 1.8 11.2 5M2.5 9.5v4h11v-4" />,
  file: <path d="M3.5 1.8h5.8l3.2 3.2v9.2h-9ZM9 2v3.3h3.3" />,
  fork: (
    <path d="M4.5 5.5v5M4.5 8h4a3 3 0 0 0 3-2.5M4.5 1.8a1.8 1.8 0 1 0 .1 0M4.5 10.6a1.8 1.8 0 1 0 .1 0M11.5 1.8a1.8 1.8 0 1 0 .1 0" />
  ),
  help: <path d="M8 1.7a6.3 6.3 0 1 0 .1 0M6 6.2a2 2 0 1 1 2.8 1.9c-.6.3-.8.7-.8 1.4M8 11.6v.1" />,
  history: <path d="M2.2 8a5.8 5.8 0 1 0 1.8-4.2M2 2.2v2.6h2.6M8 5v3.2l2.2 1.4" />,
  image: <path d="M1.8 2.8h12.4v10.4H1.8ZM1.8 11l3.4-3.6 3 3 2-1.8 4 3.6M10.5 6v.1" />,
  menu: <path d="M2 4h12M2 8h12M2 12h12" />,
  monitor: <path d="M1.8 2.8h12.4v8.4H1.8ZM5.5 14h5M8 11.2V14" />,
  moon: <path d="M13.5 9.6A6 6 0 0 1 6.4 2.5a6 6 0 1 0 7.1 7.1Z" />,
  more: <path d="M3.2 8h.1M8 8h.1M12.8 8h.1" strokeWidth="2" />,
  narrow: <path d="M6.5 2v4.5H2M6.2 6.2 2 2M9.5 14V9.5H14M9.8 9.8 14 14" />,
  skipped: <path d="M3 3.5 8.5 8 3 12.5ZM12 3.5v9" />,
  trash: <path d="M2.5 4h11M6 4V2.3h4V4M3.8 4l.7 9.7h7L12.2 4M6.7 6.8v4.4M9.3 6.8v4.4" />,
  undo: <path d="M5.5 2.5 2 6l3.5 3.5M2.2 6h7.3a4 4 0 0 1 0 8H6" />,
  wide: <path d="M9.5 2H14v4.5M13.8 2.2 9.5 6.5M6.5 14H2V9.5M2.2 13.8l4.3-4.3" />,
  open: <path d="M9 2.5h4.5V7M13.2 2.8 7.5 8.5M11.5 9v4.5h-9v-9H7" />,
  outline: <path d="M2.5 3.5h11M5 8h8.5M5 12.5h8.5M2.5 8h.1M2.5 12.5h.1" />,
  queue: <path d="M2.5 3.5h11M2.5 7.5h11M2.5 11.5h5.5M11.8 9.8v4M9.8 11.8h4" />,
  options: <path d="M2 4.5h6M12 4.5h2M10 2.7v3.6M2 11.5h2M8 11.5h6M6 9.7v3.6" />,
  panel: <path d="M1.8 2.8h12.4v10.4H1.8ZM10 2.8v10.4" />,
  plan: <path d="m2 4 1.2 1.2L5.4 3M2 9.5l1.2 1.2 2.2-2.2M8 4.2h6M8 10h6" />,
  plus: <path d="M8 2.8v10.4M2.8 8h10.4" />,
  retry: <path d="M13.8 8A5.8 5.8 0 1 1 12 3.8M14 2.2v2.6h-2.6" />,
  search: <path d="M7 2a5 5 0 1 0 .1 0M10.8 10.8 14 14" />,
  send: <path d="M8 13.2V3M3.8 7 8 2.8 12.2 7" strokeWidth="1.8" />,
  shield: <path d="M8 1.6 13.4 3.6v4c0 3.4-2.3 5.6-5.4 6.8-3.1-1.2-5.4-3.4-5.4-6.8v-4Z" />,
  spark: <path d="M8 1.5c.5 3.8 2.2 5.7 6.5 6.5-4.3.8-6 2.7-6.5 6.5-.5-3.8-2.2-5.7-6.5-6.5C5.8 7.2 7.5 5.3 8 1.5Z" />,
  stop: <rect x="4" y="4" width="8" height="8" rx="1.4" fill="currentColor" stroke="none" />,
  sun: <path d="M8 5.2a2.8 2.8 0 1 0 .1 0M8 1v1.4M8 13.6V15M1 8h1.4M13.6 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1" />,
  thought: <path d="M4 10.5A3.4 3.4 0 0 1 4.3 4a4.2 4.2 0 0 1 7.6.8 2.9 2.9 0 0 1-.4 5.7ZM5 13.4v.1" />,
  tool: (
    <path d="M9.5 6.5 13.8 2.2M9.8 2.2a3.6 3.6 0 0 0-4.5 4.5L1.9 10.1a1.5 1.5 0 0 0 0 2.1l1.9 1.9a1.5 1.5 0 0 0 2.1 0l3.4-3.4a3.6 3.6 0 0 0 4.5-4.5l-2.3 2.3-2.6-.6-.6-2.6Z" />
  ),
} satisfies Record<string, ReactNode>;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16, ...rest }: { name: IconName; size?: number } & SVGProps<SVGSVGElement>) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
      {...rest}
    >
      {PATHS[name]}
    </svg>
  );
}

export function Mark({ size = 22 }: { size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 32 32"
      fill="none"
      stroke="currentColor"
      strokeLinecap="round"
      aria-hidden="true"
      className="mark"
    >
      <path d="M12 4C5 10 5 22 12 28M20 4c7 6 7 18 0 24" strokeWidth="3.6" />
      <path d="M8.6 16h14.8" strokeWidth="3" />
    </svg>
  );
}
