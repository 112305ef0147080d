// Checks on demand: a line of JSON in, {check, ...arguments}, and a line out, {result} or {error}.

import { createInterface } from "node:readline";

/** The model's tool, and what it finds out. */
export const weather = ({ days = 0 }) => (days === 2 ? "18 °C and rain 🌧" : "3 °C and fog");

/** Runs checks by name, one after another, until the input ends. */
export async function serve(checks) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { check, ...options } = JSON.parse(line);
    let answer;
    try {
      answer = { result: (await checks[check](options)) ?? null };
    } catch (error) {
      answer = { error: described(error) };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
}

function described(error) {
  const { name, message, stack, status, statusCode, code, param, type, isRetryable } = error;
  const kind = error.constructor?.name;
  return { name, kind, message, stack, status, statusCode, code, param, type, isRetryable };
}
