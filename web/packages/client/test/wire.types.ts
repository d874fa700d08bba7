/** Checked by the compiler alone: what our server sends our client understands, and the other way round. */

import type * as Ours from "../src/protocol.js";
import type * as Wire from "../src/wire.js";

type Fits<Part extends Whole, Whole> = Part;
type Unknown<Theirs, Known> = Exclude<keyof Theirs, keyof Known>;

/** Every message of the server is one of ours, and every command of ours is one of the server's. */
export type Sent = Fits<Wire.ServerMessage, Ours.ServerMessage>;
export type Accepted = Fits<Ours.HarnessCommand, Wire.Command>;
export type AllCommands = Fits<Wire.Command["type"], Ours.HarnessCommand["type"]>;

/** No member is sent that nobody here has heard of. */
export type Nothing = Fits<
  | Unknown<Wire.State, Ours.HarnessState>
  | Unknown<Wire.Message, Ours.HarnessMessage>
  | Unknown<Wire.ToolCall, Ours.HarnessToolCall>
  | Unknown<Wire.Approval, Ours.Approval>
  | Unknown<Wire.ThreadHead, Ours.ThreadHead>
  | Unknown<Wire.Usage, Ours.Usage>
  | Unknown<Wire.Settings, Ours.Settings>
  | Unknown<Wire.ConfigOption, Ours.ConfigOption>
  | Unknown<Wire.Model, Ours.Model>
  | Unknown<Wire.QueuedPrompt, Ours.QueuedPrompt>
  | Unknown<Wire.FileUpdate, Ours.FileChange>
  | Unknown<Wire.Attachment, Ours.Attachment>,
  never
>;
