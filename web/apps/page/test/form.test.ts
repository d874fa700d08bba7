import { expect, test } from "vitest";
import { contentOf, fieldsOf, filledBefore, isComplete } from "../src/tools/form.js";

const schema = {
  type: "object",
  properties: {
    name: { type: "string", title: "Your name", description: "As it is written" },
    mail: { type: "string", format: "email" },
    age: { type: "integer" },
    news: { type: "boolean", default: true },
    size: { type: "string", enum: ["s", "m"], enumNames: ["Small", "Medium"] },
    colour: { type: "string", oneOf: [{ const: "r", title: "Red" }, { const: "g" }], default: "g" },
    extras: { type: "array", items: { type: "string", enum: ["milk", "sugar"] } },
  },
  required: ["name", "size"],
};

test("a schema becomes fields in its own order", () => {
  expect(fieldsOf(schema).map(({ name, kind, input, required }) => [name, kind, input, required])).toEqual([
    ["name", "text", "text", true],
    ["mail", "text", "email", false],
    ["age", "number", "number", false],
    ["news", "flag", "text", false],
    ["size", "one", "text", true],
    ["colour", "one", "text", false],
    ["extras", "some", "text", false],
  ]);
});

test("choices have the names that people see and the words that are sent", () => {
  const [size, colour] = fieldsOf(schema).filter(({ kind }) => kind === "one");
  expect(size?.choices).toEqual([
    { value: "s", name: "Small" },
    { value: "m", name: "Medium" },
  ]);
  expect(colour?.choices).toEqual([
    { value: "r", name: "Red" },
    { value: "g", name: "g" },
  ]);
});

test("the form starts as its defaults have it", () => {
  expect(filledBefore(schema)).toEqual({ news: true, colour: "g" });
});

test("what was left empty is not sent, numbers are numbers", () => {
  const fields = fieldsOf(schema);
  const filled = { ...filledBefore(schema), name: "Ada", age: "36", size: "m", extras: ["milk"] };
  expect(contentOf(fields, filled)).toEqual({
    name: "Ada",
    age: 36,
    news: true,
    size: "m",
    colour: "g",
    extras: ["milk"],
  });
});

test("it can be sent when everything that must be there is", () => {
  const fields = fieldsOf(schema);
  expect(isComplete(fields, { name: "Ada" })).toBe(false);
  expect(isComplete(fields, { name: "Ada", size: "s" })).toBe(true);
});

test.each([null, undefined, 3, [], {}, { properties: null }, { properties: { a: null } }])(
  "an odd schema %j is shown as far as it goes",
  (odd) => expect(fieldsOf(odd).length).toBeLessThan(2),
);
