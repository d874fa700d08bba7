export * from "./client.js";
export * from "./messages.js";
export * from "./names.js";
