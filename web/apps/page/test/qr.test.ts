import jsQR from "jsqr";
import { expect, test } from "vitest";
import { type Modules, qrCode, qrPath } from "../src/shell/qr.js";

/** As a camera would see it: four pixels a module, and a quiet zone. */
function pixels(modules: Modules): { data: Uint8ClampedArray; side: number } {
  const [scale, quiet] = [4, 4];
  const side = (modules.length + 2 * quiet) * scale;
  const data = new Uint8ClampedArray(side * side * 4).fill(255);
  modules.forEach((row, y) =>
    row.forEach((dark, x) => {
      if (!dark) return;
      for (let dy = 0; dy < scale; dy++)
        for (let dx = 0; dx < scale; dx++) {
          const at = (((y + quiet) * scale + dy) * side + (x + quiet) * scale + dx) * 4;
          data.fill(0, at, at + 3);
        }
    }),
  );
  return { data, side };
}

const read = (text: string) => {
  const { data, side } = pixels(qrCode(text));
  return jsQR(data, side, side)?.data;
};

test("a reader of others reads every length that fits", () => {
  for (let length = 1; length <= 213; length += length < 20 ? 1 : 7) {
    const text = `http://192.168.1.20:4800/?token=${"aZ09_-".repeat(40)}`.slice(0, length);
    expect(read(text), `${length}`).toBe(text);
  }
});

test("a link of ours is read", () => {
  const link = `http://192.168.178.123:48000/?token=${"x".repeat(43)}`;
  expect(read(link)).toBe(link);
});

test("letters beyond ASCII are bytes like any other", () => expect(read("grüße 日本 🙂")).toBe("grüße 日本 🙂"));

test("more than fits is refused", () => {
  expect(qrCode("x".repeat(213))).toHaveLength(57);
  expect(() => qrCode("x".repeat(214))).toThrow(RangeError);
});

test("the path has one square for every dark module", () => {
  const modules = qrCode("hames");
  expect(qrPath(modules).match(/M/g)).toHaveLength(modules.flat().filter(Boolean).length);
});
