// Writes assay.d.ts from the OpenAPI document: npm ci && npm run generate.
// The sum in its header is checked by the tests of the service.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";

const source = new URL("../../api/openapi.json", import.meta.url);
const document = readFileSync(source);
const sum = createHash("sha256").update(document).digest("hex");
const types = astToString(await openapiTS(typed(JSON.parse(document)), { defaultNonNullable: false }));
const header = `// Made by generate.mjs from ../../api/openapi.json; change that, and npm run generate.\n// sha256 of the document: ${sum}\n\n`;
writeFileSync(new URL("assay.d.ts", import.meta.url), header + types);

// Which of the optional properties must be there (oneOf and anyOf of bare
// "required") would become unions with unknown, which check nothing.
function typed(schema) {
  if (Array.isArray(schema)) return schema.map(typed);
  if (schema === null || typeof schema !== "object") return schema;
  const kept = Object.entries(schema).filter(([key, value]) => !(
    (key === "oneOf" || key === "anyOf") && Array.isArray(value) && value.every((v) => Object.keys(v).join() === "required")
  ));
  return Object.fromEntries(kept.map(([key, value]) => [key, typed(value)]));
}
