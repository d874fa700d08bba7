export { ApplyError, type ApplyErrorCode, applyOperations } from "./apply.js";
export {
  type ClientSnapshot,
  type Connection,
  HarnessClient,
  type HarnessClientOptions,
  type PendingSubmit,
} from "./client.js";
export { type DeviceLink, HarnessApi, RequestFailed } from "./http.js";
export { newId } from "./ids.js";
export * from "./protocol.js";
export { bearerFetch, bearerProtocols } from "./token.js";
