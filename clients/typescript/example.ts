import type { components } from "./assay.js";

type ScoreRequest = components["schemas"]["ScoreRequest"];
type ScoreResponse = components["schemas"]["ScoreAnswer"];

async function score(request: ScoreRequest, url: string): Promise<ScoreResponse> {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(`${url}/v1/score`, { method: "POST", headers, body: JSON.stringify(request) });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`); // a proxy may not send JSON
  return (await response.json()) as ScoreResponse;
}

const response = "Thank you 🙂. You are a stupid idiot.";
const request: ScoreRequest = { responses: [{ response }], options: { offset_unit: "utf16" } };
for (const { reward, witness } of (await score(request, process.env.ASSAY_URL ?? "http://127.0.0.1:8080")).results) {
  console.log(reward, witness && response.slice(witness.start, witness.end));
}
