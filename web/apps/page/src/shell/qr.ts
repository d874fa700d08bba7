/**
 * QR codes, as far as a link needs them: bytes, error correction level M, versions 1 to 10 (up to 213 bytes).
 *
 * By ISO/IEC 18004. The result is a square of modules, true for dark.
 */

/** Per version at level M: error correction bytes per block, and the blocks as [count, data bytes] pairs. */
const BLOCKS: readonly (readonly [number, readonly (readonly [number, number])[]])[] = [
  [10, [[1, 16]]],
  [16, [[1, 28]]],
  [26, [[1, 44]]],
  [18, [[2, 32]]],
  [24, [[2, 43]]],
  [16, [[4, 27]]],
  [18, [[4, 31]]],
  [
    22,
    [
      [2, 38],
      [2, 39],
    ],
  ],
  [
    22,
    [
      [3, 36],
      [2, 37],
    ],
  ],
  [
    26,
    [
      [4, 43],
      [1, 44],
    ],
  ],
];

/** Where the centres of alignment patterns are, by version. */
const ALIGNMENT: readonly (readonly number[])[] = [
  [],
  [6, 18],
  [6, 22],
  [6, 26],
  [6, 30],
  [6, 34],
  [6, 22, 38],
  [6, 24, 42],
  [6, 26, 46],
  [6, 28, 50],
];

export type Modules = readonly (readonly boolean[])[];

/** Throws for a text that is too long. */
export function qrCode(text: string): Modules {
  const bytes = new TextEncoder().encode(text);
  const version = 1 + BLOCKS.findIndex((_, index) => bytes.length <= capacity(index + 1));
  if (version === 0) throw new RangeError(`a QR code of ours holds at most ${capacity(BLOCKS.length)} bytes`);
  const words = interleaved(version, encoded(version, bytes));
  let best: boolean[][] | null = null;
  let least = Infinity;
  for (let mask = 0; mask < 8; mask++) {
    const modules = drawn(version, words, mask);
    const cost = penalty(modules);
    if (cost < least) [best, least] = [modules, cost];
  }
  return best!;
}

/** The path of an SVG in which a module is one unit wide. */
export function qrPath(modules: Modules): string {
  return modules
    .flatMap((row, y) => row.map((dark, x) => (dark ? `M${x} ${y}h1v1h-1z` : "")))
    .filter(Boolean)
    .join("");
}

function dataBytes(version: number): number {
  return BLOCKS[version - 1]![1].reduce((sum, [count, size]) => sum + count * size, 0);
}

function lengthBits(version: number): number {
  return version < 10 ? 8 : 16;
}

function capacity(version: number): number {
  return Math.floor((dataBytes(version) * 8 - 4 - lengthBits(version)) / 8);
}

/** Mode, length, bytes, end, padding. */
function encoded(version: number, bytes: Uint8Array): number[] {
  const bits: number[] = [];
  const put = (value: number, count: number) => {
    for (let bit = count - 1; bit >= 0; bit--) bits.push((value >> bit) & 1);
  };
  put(0b0100, 4);
  put(bytes.length, lengthBits(version));
  for (const byte of bytes) put(byte, 8);
  const size = dataBytes(version);
  put(0, Math.min(4, size * 8 - bits.length));
  while (bits.length % 8) bits.push(0);
  const words: number[] = [];
  for (let at = 0; at < bits.length; at += 8) words.push(Number.parseInt(bits.slice(at, at + 8).join(""), 2));
  for (let pad = 0xec; words.length < size; pad ^= 0xec ^ 0x11) words.push(pad);
  return words;
}

// --- error correction: Reed-Solomon over GF(256), x^8 + x^4 + x^3 + x^2 + 1

const EXP = new Uint8Array(512);
const LOG = new Uint8Array(256);
for (let power = 0, value = 1; power < 255; power++) {
  EXP[power] = EXP[power + 255] = value;
  LOG[value] = power;
  value = (value << 1) ^ (value & 0x80 ? 0x11d : 0);
}

function times(a: number, b: number): number {
  return a && b ? EXP[LOG[a]! + LOG[b]!]! : 0;
}

function remainder(data: readonly number[], degree: number): number[] {
  let divisor = [1];
  for (let power = 0; power < degree; power++) {
    const next = [...divisor, 0];
    divisor.forEach((term, index) => (next[index + 1]! ^= times(term, EXP[power]!)));
    divisor = next;
  }
  const rest = [...data, ...Array<number>(degree).fill(0)];
  for (let at = 0; at < data.length; at++) {
    const factor = rest[at]!;
    if (factor) divisor.forEach((term, index) => (rest[at + index]! ^= times(term, factor)));
  }
  return rest.slice(data.length);
}

function interleaved(version: number, words: readonly number[]): number[] {
  const [degree, groups] = BLOCKS[version - 1]!;
  const blocks: (readonly number[])[] = [];
  let at = 0;
  for (const [count, size] of groups)
    for (let block = 0; block < count; block++) blocks.push(words.slice(at, (at += size)));
  const longest = Math.max(...blocks.map(({ length }) => length));
  const result: number[] = [];
  for (let index = 0; index < longest; index++)
    for (const block of blocks) if (index < block.length) result.push(block[index]!);
  const corrections = blocks.map((block) => remainder(block, degree));
  for (let index = 0; index < degree; index++) for (const correction of corrections) result.push(correction[index]!);
  return result;
}

// --- drawing

const MASKS: readonly ((x: number, y: number) => boolean)[] = [
  (x, y) => (x + y) % 2 === 0,
  (_, y) => y % 2 === 0,
  (x) => x % 3 === 0,
  (x, y) => (x + y) % 3 === 0,
  (x, y) => (Math.floor(x / 3) + Math.floor(y / 2)) % 2 === 0,
  (x, y) => ((x * y) % 2) + ((x * y) % 3) === 0,
  (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2 === 0,
  (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2 === 0,
];

function drawn(version: number, words: readonly number[], mask: number): boolean[][] {
  const size = version * 4 + 17;
  const cells: (boolean | null)[][] = Array.from({ length: size }, () => Array<boolean | null>(size).fill(null));
  const set = (x: number, y: number, dark: boolean) => {
    if (x >= 0 && y >= 0 && x < size && y < size) cells[y]![x] = dark;
  };
  const square = (cx: number, cy: number, radius: number, isDark: (distance: number) => boolean) => {
    for (let dy = -radius; dy <= radius; dy++)
      for (let dx = -radius; dx <= radius; dx++) set(cx + dx, cy + dy, isDark(Math.max(Math.abs(dx), Math.abs(dy))));
  };
  for (let at = 0; at < size; at++) {
    set(6, at, at % 2 === 0);
    set(at, 6, at % 2 === 0);
  }
  for (const [cx, cy] of [
    [3, 3],
    [size - 4, 3],
    [3, size - 4],
  ] as const)
    square(cx, cy, 4, (distance) => distance !== 2 && distance !== 4);
  const centres = ALIGNMENT[version - 1]!;
  const last = centres.length - 1;
  centres.forEach((cy, i) =>
    centres.forEach((cx, j) => {
      const corner = (i === 0 && j === 0) || (i === 0 && j === last) || (i === last && j === 0);
      if (!corner) square(cx, cy, 2, (distance) => distance !== 1);
    }),
  );
  drawFormat(set, size, mask);
  if (version >= 7) drawVersion(set, size, version);
  fill(cells, words, MASKS[mask]!);
  return cells as boolean[][];
}

type SetCell = (x: number, y: number, dark: boolean) => void;

function drawFormat(set: SetCell, size: number, mask: number): void {
  // Level M is 00; a BCH code of five bits, and a pattern that is never all light.
  let rest = mask;
  for (let step = 0; step < 10; step++) rest = (rest << 1) ^ ((rest >> 9) * 0x537);
  const bits = ((mask << 10) | rest) ^ 0x5412;
  const bit = (index: number) => ((bits >> index) & 1) === 1;
  for (let index = 0; index <= 5; index++) set(8, index, bit(index));
  set(8, 7, bit(6));
  set(8, 8, bit(7));
  set(7, 8, bit(8));
  for (let index = 9; index < 15; index++) set(14 - index, 8, bit(index));
  for (let index = 0; index < 8; index++) set(size - 1 - index, 8, bit(index));
  for (let index = 8; index < 15; index++) set(8, size - 15 + index, bit(index));
  set(8, size - 8, true);
}

function drawVersion(set: SetCell, size: number, version: number): void {
  let rest = version;
  for (let step = 0; step < 12; step++) rest = (rest << 1) ^ ((rest >> 11) * 0x1f25);
  const bits = (version << 12) | rest;
  for (let index = 0; index < 18; index++) {
    const dark = ((bits >> index) & 1) === 1;
    const [a, b] = [size - 11 + (index % 3), Math.floor(index / 3)];
    set(a, b, dark);
    set(b, a, dark);
  }
}

/** In columns of two, upwards and downwards in turn, around what is there already. */
function fill(cells: (boolean | null)[][], words: readonly number[], masked: (x: number, y: number) => boolean): void {
  const size = cells.length;
  let bit = 0;
  for (let right = size - 1; right >= 1; right -= 2) {
    if (right === 6) right = 5;
    for (let step = 0; step < size; step++) {
      const upward = ((right + 1) & 2) === 0;
      const y = upward ? size - 1 - step : step;
      for (const x of [right, right - 1]) {
        if (cells[y]![x] !== null) continue;
        const dark = (((words[bit >> 3] ?? 0) >> (7 - (bit & 7))) & 1) === 1;
        cells[y]![x] = dark !== masked(x, y);
        bit++;
      }
    }
  }
}

/** The standard's measure of what is hard to read: long runs, blocks, false finders, too much of one colour. */
function penalty(modules: boolean[][]): number {
  const size = modules.length;
  const columns = modules.map((_, x) => modules.map((row) => row[x]!));
  let cost = 0;
  for (const line of [...modules, ...columns]) {
    const text = line.map((dark) => (dark ? "1" : "0")).join("");
    for (const [run] of text.matchAll(/0{5,}|1{5,}/g)) cost += run.length - 2;
    for (const pattern of ["10111010000", "00001011101"])
      for (let at = text.indexOf(pattern); at >= 0; at = text.indexOf(pattern, at + 1)) cost += 40;
  }
  for (let y = 0; y < size - 1; y++)
    for (let x = 0; x < size - 1; x++) {
      const dark = modules[y]![x];
      if (dark === modules[y]![x + 1] && dark === modules[y + 1]![x] && dark === modules[y + 1]![x + 1]) cost += 3;
    }
  const share = modules.flat().filter(Boolean).length / (size * size);
  return cost + Math.floor(Math.abs(share * 20 - 10)) * 10;
}
