import { spawn, type SpawnOptions } from "node:child_process";
import { createInterface } from "node:readline";
import { FlintClient, type Transport } from "./client.js";

/** Starts a flint server, such as `hames app-server`, and connects to its stdin and stdout. */
export function spawnClient(command: string, args: readonly string[] = [], options: SpawnOptions = {}): FlintClient {
  return new FlintClient(processTransport(command, args, options));
}

function processTransport(command: string, args: readonly string[], options: SpawnOptions): Transport {
  const child = spawn(command, args, { ...options, stdio: ["pipe", "pipe", "inherit"] });
  const { stdin, stdout } = child;
  if (!stdin || !stdout) throw new Error("the process has no pipes");
  stdin.on("error", () => {}); // the end of the process is told by `close`
  return {
    send: (message) => void stdin.write(`${message}\n`),
    receive: (message, closed) => {
      createInterface({ input: stdout, crlfDelay: Infinity }).on("line", message);
      child.on("error", (problem) => closed(`cannot start ${command}: ${problem.message}`));
      child.on("close", (code) => closed(`${command} has ended with code ${code}`));
    },
    close: () => stdin.end(),
  };
}
