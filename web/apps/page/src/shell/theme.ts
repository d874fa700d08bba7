/** Light, dark, or as the system has it. */

import { useEffect } from "react";
import { useRemembered } from "./storage.js";

const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

export function useTheme(): { theme: Theme; next: () => void } {
  const [theme, setTheme] = useRemembered<Theme>("theme", THEMES);
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
  }, [theme]);
  return { theme, next: () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]!) };
}
