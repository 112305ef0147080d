// What Vercel's AI SDK makes of the router's answers, through @ai-sdk/openai-compatible.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Output, generateObject, generateText, stepCountIs, streamObject, streamText, tool } from "ai";
import { z } from "zod";

import { serve, weather } from "./lines.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

const provider = createOpenAICompatible({
  name: "router",
  baseURL: process.argv[2],
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const Report = z.object({ city: z.string(), celsius: z.int(), rain: z.boolean() });
const tools = {
  weather: tool({
    description: "The weather in a city.",
    inputSchema: z.object({ city: z.string(), days: z.int().optional() }),
    execute: weather,
  }),
};

const asked = (options) => ({ model: provider("tiny"), maxRetries: 0, ...options });

/** What streamText and generateText both tell, the latter at once. */
async function told(result) {
  const steps = (await result.steps).map((step) => ({
    text: step.text,
    reasoning: step.reasoningText,
    finishReason: step.finishReason,
    calls: step.toolCalls.map(({ toolCallId, toolName, input }) => ({ toolCallId, toolName, input })),
    results: step.toolResults.map(({ output }) => output),
    usage: step.usage,
  }));
  return { text: await result.text, steps };
}

async function parts(stream) {
  const all = [];
  for await (const part of stream) all.push(part);
  return all;
}

async function text({ stream, withTools, asReport, ...options }) {
  const call = asked({
    ...options,
    ...(withTools ? { tools, stopWhen: stepCountIs(5) } : {}),
    ...(asReport ? { output: Output.object({ schema: Report }) } : {}),
  });
  if (!stream) {
    const result = await generateText(call);
    return { ...(await told(result)), output: asReport ? result.output : undefined };
  }
  const errors = [];
  const result = streamText({ ...call, onError: ({ error }) => errors.push(String(error?.message ?? error)) });
  const types = (await parts(result.fullStream)).map((part) => part.type);
  if (errors.length) return { errors, types };
  return { ...(await told(result)), types, output: asReport ? await result.output : undefined };
}

await serve({
  text,

  async object({ stream, ...options }) {
    const call = asked({ ...options, schema: Report });
    if (!stream) return (await generateObject(call)).object;
    const result = streamObject(call);
    const partial = await parts(result.partialObjectStream);
    return { object: await result.object, partial };
  },

  async abort(options) {
    const controller = new AbortController();
    const result = streamText(asked({ ...options, abortSignal: controller.signal }));
    for await (const part of result.fullStream) {
      if (part.type === "text-delta") controller.abort();
    }
  },
});
