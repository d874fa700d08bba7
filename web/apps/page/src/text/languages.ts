/** The highlighter itself: loaded when the first code block is seen, never before. */

import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import makefile from "highlight.js/lib/languages/makefile";
import markdown from "highlight.js/lib/languages/markdown";
import php from "highlight.js/lib/languages/php";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import swift from "highlight.js/lib/languages/swift";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";
import type { CodeLine, Piece } from "./highlight.js";

const lowlight = createLowlight({
  bash,
  c,
  cpp,
  csharp,
  css,
  diff,
  dockerfile,
  go,
  ini,
  java,
  javascript,
  json,
  kotlin,
  makefile,
  markdown,
  php,
  python,
  ruby,
  rust,
  sql,
  swift,
  typescript,
  xml,
  yaml,
});
lowlight.registerAlias({ bash: ["shell", "console", "zsh"], ini: ["toml"], xml: ["vue", "svelte"] });

export function knows(language: string): boolean {
  return lowlight.registered(language);
}

/** A tree of nested spans, flattened: one list of pieces per line. */
export function highlightLines(code: string, language: string): CodeLine[] {
  const lines: Piece[][] = [[]];
  const walk = (node: Node, classes: string) => {
    if (node.type === "text") {
      node.value.split("\n").forEach((text, index) => {
        if (index > 0) lines.push([]);
        if (text) lines.at(-1)!.push({ text, classes });
      });
    } else if ("children" in node) {
      const own =
        node.type === "element" ? (node.properties["className"] as string[] | undefined)?.join(" ") : undefined;
      for (const child of node.children) walk(child as Node, own ?? classes);
    }
  };
  walk(lowlight.highlight(language, code) as Node, "");
  return lines;
}

type Node =
  | { type: "text"; value: string }
  | { type: "element"; properties: Record<string, unknown>; children: unknown[] }
  | { type: "root"; children: unknown[] };
