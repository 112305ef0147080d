// What openai for Node makes of the router's answers.

import OpenAI from "openai";
import { zodFunction, zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

import { serve, weather } from "./lines.mjs";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "none", maxRetries: 0 });
const Report = z.object({ city: z.string(), celsius: z.int(), rain: z.boolean() });

const asked = ({ question, ...options }) => ({
  model: "tiny",
  messages: [{ role: "user", content: question }],
  ...options,
});

await serve({
  chat: (options) => client.chat.completions.create(asked(options)),

  async stream(options) {
    const chunks = [];
    for await (const chunk of await client.chat.completions.create({
      ...asked(options),
      stream: true,
    })) {
      chunks.push(chunk);
    }
    return chunks;
  },

  async helper(options) {
    const runner = client.chat.completions.stream(asked(options));
    let text = "";
    runner.on("content", (delta) => (text += delta));
    return {
      completion: await runner.finalChatCompletion(),
      usage: await runner.totalUsage(),
      text,
    };
  },

  async runTools({ stream, ...options }) {
    const called = [];
    const runner = client.chat.completions.runTools({
      ...asked(options),
      stream,
      tools: [
        zodFunction({
          name: "weather",
          description: "The weather in a city.",
          parameters: z.object({ city: z.string(), days: z.int().nullish() }),
          function: (given) => {
            called.push(given);
            return weather(given);
          },
        }),
      ],
    });
    return { content: await runner.finalContent(), messages: runner.messages, called };
  },

  async parse({ stream, ...options }) {
    const body = { ...asked(options), response_format: zodResponseFormat(Report, "report") };
    const completion = stream
      ? await client.chat.completions.stream(body).finalChatCompletion()
      : await client.chat.completions.parse(body);
    return completion.choices[0].message.parsed;
  },

  async abort(options) {
    const stream = await client.chat.completions.create({ ...asked(options), stream: true });
    for await (const chunk of stream) {
      if (chunk.choices[0].delta.content) break; // leaving the loop aborts the request
    }
  },

  async models() {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    return ids;
  },
});
