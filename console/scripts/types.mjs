// Writes src/api/types.ts, or the file that is named, from the OpenAPI document: a type for each schema, by its name.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const { schemas } = JSON.parse(readFileSync(join(root, "../docs/openapi.json"), "utf8")).components;
const PLAIN = { string: "string", integer: "number", number: "number", boolean: "boolean", null: "null" };

const name = (text) => text.replace(/[^A-Za-z0-9]+/g, "_").replace(/_+$/, "");
const several = (schemasOf, sign) => {
  const found = [...new Set(schemasOf.map(type))];
  return found.length === 1 ? found[0] : `(${found.join(sign)})`;
};

function object(schema) {
  const needed = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties ?? {}).map(
    ([key, value]) => `${JSON.stringify(key)}${needed.has(key) ? "" : "?"}: ${type(value)};`,
  );
  const rest = schema.additionalProperties;
  if (!fields.length) return `Record<string, ${rest && rest !== true ? type(rest) : "unknown"}>`;
  return `{ ${fields.join(" ")} }`;
}

function type(schema) {
  if (schema.$ref) return name(schema.$ref.split("/").at(-1));
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  const choice = schema.anyOf ?? schema.oneOf;
  if (choice && !schema.properties) return several(choice, " | ");
  if (schema.allOf) return several(schema.allOf, " & ");
  if (schema.type === "array") {
    if (schema.prefixItems) return `[${schema.prefixItems.map(type).join(", ")}]`;
    return `(${schema.items ? type(schema.items) : "unknown"})[]`;
  }
  if (schema.type === "object" || schema.properties) return object(schema);
  return PLAIN[schema.type] ?? "unknown";
}

const lines = ["// Written by `npm run types` from docs/openapi.json.", ""];
for (const [key, schema] of Object.entries(schemas)) {
  lines.push(`export type ${name(key)} = ${type(schema)};`);
}
writeFileSync(process.argv[2] ?? join(root, "src/api/types.ts"), `${lines.join("\n")}\n`);
