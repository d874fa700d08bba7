// What the drivers of the AI SDK share.
export const told = {};

export async function attempt(what, work) {
  let clock;
  const late = new Promise((_, fail) => (clock = setTimeout(() => fail(new Error("it took too long")), 60_000)));
  try {
    told[what] = await Promise.race([work(), late]);
  } catch (error) {
    told[what] = { error: String(error.message ?? error) };
  }
  clearTimeout(clock);
}

// All that a stream says. `onTool` is called once, when the first tool is called.
export async function said(result, onTool) {
  const tools = [];
  const raw = [];
  let reasoning = "";
  for await (const part of result.fullStream ?? result.stream) {
    if (part.type === "tool-call" && tools.push(part.toolName) === 1) await onTool?.();
    if (part.type === "reasoning-delta") reasoning += part.text;
    if (part.type === "raw") raw.push(part.rawValue?.method);
    if (part.type === "error") throw part.error;
  }
  return { text: await result.text, tools, reasoning, raw, usage: await result.usage };
}
