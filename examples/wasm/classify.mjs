// node classify.mjs < images: reads float32 images of 28x28 and prints a line for each.
import { readFileSync } from "node:fs";
import { load } from "./digits.mjs";

const folder = new URL(".", import.meta.url);
const classify = await load(readFileSync(new URL("digits.wasm", folder)), readFileSync(new URL("digits.h", folder), "utf8"));
const input = readFileSync(0);
const pixels = new Float32Array(input.buffer.slice(input.byteOffset, input.byteOffset + input.byteLength));
for (let first = 0; first < pixels.length; first += 784) {
  const probabilities = classify(pixels.subarray(first, first + 784));
  const digit = probabilities.indexOf(Math.max(...probabilities));
  const bits = Buffer.from(probabilities.buffer).toString("hex");
  console.log(`${digit} ${probabilities[digit].toFixed(4)} ${bits}`);
}
