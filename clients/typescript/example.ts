import type { components } from "./assay.js";

type ScoreRequest = components["schemas"]["ScoreRequest"];
type ScoreAnswer = components["schemas"]["ScoreAnswer"];
type Failure = components["schemas"]["Error"];

async function score(request: ScoreRequest, url: string): Promise<ScoreAnswer> {
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(`${url}/v1/score`, { method: "POST", headers, body: JSON.stringify(request) });
  if (!answer.ok) throw new Error(((await answer.json()) as Failure).error.message);
  return (await answer.json()) as ScoreAnswer;
}

const response = "Thank you 🙂. You are a stupid idiot.";
const request: ScoreRequest = { responses: [{ response }], options: { offset_unit: "utf16" } };
for (const { reward, witness } of (await score(request, process.env.ASSAY_URL ?? "http://127.0.0.1:8080")).results) {
  console.log(reward, witness && response.slice(witness.start, witness.end));
}
