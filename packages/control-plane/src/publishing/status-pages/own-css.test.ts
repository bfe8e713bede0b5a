import t from "tap";
import { AppError } from "@statusmesh/shared/errors";
import { checkedCss, maxCssBytes } from "./own-css.ts";

const refusal = (css: string): string | null => {
  try {
    checkedCss(css);
    return null;
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "INVALID_CSS") throw error;
    return error.message;
  }
};

t.test("style sheets that load nothing stay as they are", async (t) => {
  for (const css of [
    ".page { color: var(--x, rgb(0 0 0 / 50%)); background: linear-gradient(red, blue) }",
    "@media (width > 30em) { a::after { content: attr(href) } }",
    "@layer x; @supports (display: grid) { li:not(.url) { --image: 1px } }",
    "@keyframes image { to { opacity: 0 } }",
    "p { content: 'url(x) @import' } /* url(x) @import */",
  ])
    t.equal(checkedCss(css), css);
  for (const none of [null, undefined, "", " \n"]) t.equal(checkedCss(none), null);
});

t.test("what loads something is refused with line and column, however it is written", async (t) => {
  for (const [css, message] of [
    ["a {\n  background: url(https://evil.example/x) }", /^Line 2, column 15: url\(\)/],
    ["a { background: url( 'x' ) }", /^Line 1, column 17: url\(\)/],
    ["a { background: URL(x) }", /url/],
    ["a { background: \\75 rl(x) }", /url/],
    ["a { background: u\\000072l('x') }", /url/],
    ["a { --x: src('x') }", /src/],
    ["a { background: image('x') }", /image/],
    ["a { background: image-set('x' 1x) }", /image-set/],
    ["a { background: -webkit-image-set('x' 1x) }", /image-set/],
    ["a { background: -webkit-cross-fade(x, y, 1%) }", /cross-fade/],
    ["a { background: -moz-element(#x) }", /element/],
    ["a { background: attr(data-x url) }", /attr/],
    ["a { background: attr(data-x type(<url>)) }", /attr/],
    ["@import 'x.css';", /^Line 1, column 1: @import/],
    ["@IMPORT 'x';", /@IMPORT/],
    ["@\\69mport 'x';", /@import/],
    ["@namespace x 'y';", /@namespace/],
    ["@font-face { font-family: x }", /@font-face/],
    ["@property --x { syntax: '*' }", /@property/],
    ["@charset 'utf-8';", /@charset/],
    ["a { content: 'x\n' }", /^Line 1, column 14:/],
    ["/* without an end", /^Line 1, column 1:/],
    ["a".repeat(maxCssBytes + 1), /32768 bytes/],
    ["\u00e9".repeat(maxCssBytes / 2 + 1), /32768 bytes/],
  ] as const)
    t.ok(message.test(refusal(css) ?? ""), css.slice(0, 50));
});
