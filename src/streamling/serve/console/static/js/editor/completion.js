// Suggestions for a pipeline file from its JSON Schema. Works on lines and their indentation, so that it also works while
// the file is not valid YAML. Pure functions.
const INDENT = /^\s*(-\s+)?/;
const ENTRY = /^(?:"([^"]*)"|([^\s#:"'][^:#]*?))\s*:(?:\s+(.*)|\s*)$/;

function parse(line) {
  const [{ length }, dash] = INDENT.exec(line);
  const entry = ENTRY.exec(line.slice(length));
  return { indent: length, key: entry ? entry[1] ?? entry[2] : null, value: (entry?.[3] ?? "").trim(), isItem: Boolean(dash) };
}

// The keys above line `number`, outermost first, each with the line where it is.
function pathTo(lines, number, indent) {
  const path = [];
  let limit = indent;
  for (let index = number - 1; index >= 0 && limit > 0; index -= 1) {
    if (!lines[index].trim() || lines[index].trim().startsWith("#")) continue;
    const { indent: found, key, isItem } = parse(lines[index]);
    const start = isItem ? lines[index].indexOf("-") : found;
    if (key !== null && found < limit) {
      path.unshift({ key, line: index, indent: found });
      limit = start;
    } else if (isItem && start < limit) {
      limit = start + 1;
    }
  }
  return path;
}

// The keys of a block: lines with the same indentation below line `header`.
function blockKeys(lines, header, indent) {
  const keys = {};
  let own = null;
  for (let index = header + 1; index < lines.length; index += 1) {
    if (!lines[index].trim() || lines[index].trim().startsWith("#")) continue;
    const { indent: found, key, value } = parse(lines[index]);
    if (found <= indent) break;
    own ??= found;
    if (found === own && key !== null) keys[key] = value;
  }
  return keys;
}

const resolve = (schema, root) => (schema?.$ref ? root.$defs[schema.$ref.split("/").pop()] : schema);

// All forms that a value may have, without references.
function forms(schema, root) {
  const found = resolve(schema, root);
  if (!found) return [];
  return [found, ...["anyOf", "oneOf"].flatMap((key) => (found[key] ?? []).flatMap((each) => forms(each, root)))];
}

// The properties of an object; those of a node depend on its `type`.
function propertiesOf(schema, keys, root) {
  return forms(schema, root).reduce((all, form) => {
    const branches = (form.allOf ?? []).filter(({ if: condition }) => condition?.properties?.type?.const === keys.type);
    return { ...all, ...form.properties, ...branches.reduce((found, { then }) => ({ ...found, ...propertiesOf(then, keys, root) }), {}) };
  }, {});
}

function childSchema(schema, key, keys, root) {
  const known = propertiesOf(schema, keys, root)[key];
  if (known) return known;
  return forms(schema, root).map((form) => form.additionalProperties).find((each) => typeof each === "object");
}

const itemOf = (schema, root) => forms(schema, root).map((form) => form.items).find(Boolean) ?? schema;

function schemaAt(path, lines, root) {
  let schema = root;
  let keys = blockKeys(lines, -1, -1);
  for (const { key, line, indent } of path) {
    schema = itemOf(childSchema(schema, key, keys, root), root);
    keys = blockKeys(lines, line, indent);
  }
  return { schema, keys };
}

function namesIn(lines, ...sections) {
  return sections.flatMap((section) => {
    const header = lines.findIndex((line) => line.startsWith(`${section}:`));
    return header < 0 ? [] : Object.keys(blockKeys(lines, header, 0));
  });
}

function valuesOf(schema, key, path, lines, root) {
  if (key === "from") return namesIn(lines, "sources", "transforms");
  if (key === "to" && path.at(-1)?.key === "errors") return namesIn(lines, "sinks");
  const all = forms(schema, root);
  const listed = all.flatMap((form) => [...(form.enum ?? []), ...(form.const === undefined ? [] : [form.const])]);
  const yesNo = all.some((form) => form.type === "boolean") ? ["true", "false"] : [];
  const examples = listed.length || yesNo.length ? [] : all.flatMap((form) => form.examples ?? []);
  return [...listed, ...yesNo, ...examples].filter((each) => typeof each !== "object").map(String);
}

function keyOption(name, schema, isRequired, root) {
  const isNested = forms(schema, root).some((form) => form.type === "object" && (form.properties || form.additionalProperties));
  return { label: name, apply: isNested ? `${name}:` : `${name}: `, detail: isRequired ? "required" : "", info: resolve(schema, root)?.description ?? schema.description,
    boost: name === "type" ? 2 : isRequired ? 1 : 0 };
}

export function complete(text, position, root, isExplicit) {
  const lines = text.split("\n");
  const number = text.slice(0, position).split("\n").length - 1;
  const before = text.slice(0, position).split("\n").pop();
  const { indent, key } = parse(before);
  if (before.trimStart().startsWith("#")) return null;
  const path = pathTo(lines, number, indent);
  const others = [...lines.slice(0, number), "", ...lines.slice(number + 1)];
  const { schema, keys } = schemaAt(path, others, root);
  if (key !== null) {
    const typed = /[^\s:]*$/.exec(before)[0];
    const values = valuesOf(childSchema(schema, key, keys, root), key, path, lines, root);
    return values.length ? { from: position - typed.length, options: values.map((label) => ({ label })), validFor: /^[\w-]*$/ } : null;
  }
  const typed = /[\w-]*$/.exec(before)[0];
  if (!typed && !isExplicit) return null;
  const required = new Set(forms(schema, root).flatMap((form) => [...(form.required ?? []),
    ...(form.allOf ?? []).filter(({ if: condition }) => condition?.properties?.type?.const === keys.type).flatMap(({ then }) => resolve(then, root)?.required ?? [])]));
  const options = Object.entries(propertiesOf(schema, keys, root)).filter(([name]) => !(name in keys))
    .map(([name, each]) => keyOption(name, each, required.has(name), root));
  return options.length ? { from: position - typed.length, options, validFor: /^[\w-]*$/ } : null;
}
