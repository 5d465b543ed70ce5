// Type tests: tsc checks this file, and nothing runs it.
import type { components, operations, paths } from "./assay.js";

type S = components["schemas"];

export const dense: S["ScoreRequest"] = {
  responses: [{ response: "Fine.", token_offsets: [[0, 4], [4, 5]] }],
  options: { dense: "shaped", gamma: 0.99 },
};
// @ts-expect-error no such scale
export const scale: S["Options"] = { reward: "probit" };
// @ts-expect-error no such option
export const option: S["Options"] = { rewards: "raw" };
// @ts-expect-error a request has responses
export const empty: S["ScoreRequest"] = {};

export function texts(r: S["Result"]): string {
  // @ts-expect-error an empty response has no witness
  r.witness.text;
  return r.witness?.text ?? "";
}

export const rules: S["Options"] = { aspects: true, combination: "sum", weights: { rudeness: 1, evasion: 0.5 } };
// @ts-expect-error no such combination
export const combination: S["Options"] = { combination: "max" };
export const rewards = (r: S["Result"]): number[] => Object.values(r.aspects ?? {}).map((a) => a.reward);

export type Promoted = operations["promote"]["responses"][200]["content"]["application/json"];
export const version = (c: Promoted): string => c.version;
export type Labels = NonNullable<paths["/v1/feedback"]["post"]["requestBody"]>["content"]["application/json"];
export const labels: Labels = { items: [{ id: "r1", label: "violation", response: "You fool." }] };
export const named: Labels = { items: [{ id: "r1", labels: { evasion: "violation" }, response: "I would rather not say." }] };
// @ts-expect-error no such label
export const wrong: Labels = { items: [{ id: "r1", label: "bad", response: "You fool." }] };
