/** Who did what, as the page says it. */

import { expect, test } from "vitest";
import { nameOf, somebodyElse, whyNotAnswering, whyOnlyLooking } from "../src/text/people.js";

test("somebody is shown with where they are", () => {
  expect(nameOf({ kind: "token", name: "bob", via: "flint", client: "Zed" })).toBe("bob (flint, Zed)");
  expect(nameOf({ kind: "user", name: "ann", via: "terminal" })).toBe("ann (terminal)");
  expect(nameOf({ kind: "hames" })).toBe("Hames");
});

test("whoever looks at the page is not told about themselves", () => {
  expect(somebodyElse({ kind: "token", name: "bob", via: "page" }, "bob")).toBe("");
  expect(somebodyElse({ kind: "token", name: "bob", via: "flint" }, "bob")).toBe("bob (flint)");
  expect(somebodyElse({ kind: "token", name: "ann", via: "page" }, "bob")).toBe("ann (page)");
  expect(somebodyElse(null, "bob")).toBe("");
});

test.each([
  ["observer", true, true],
  ["driver", false, true],
  ["approver", false, false],
  ["owner", false, false],
] as const)("what the role %s hides is explained", (role, looks, answers) => {
  expect(whyOnlyLooking(role) !== "").toBe(looks);
  expect(whyNotAnswering(role) !== "").toBe(answers);
});
