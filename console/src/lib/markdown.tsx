/**
 * The Markdown that models write, as elements: never as HTML, so that nothing in it can run.
 *
 * Headings, lists, quotes, code, rules and tables; strong, emphasised and struck text, code and
 * links to web pages. Whatever else there is stays the text that it is.
 */
import type { ComponentChild, VNode } from "preact";
import { Plain } from "./hidden";

const INLINE =
  /(?<!`)(?<code>`{1,20})(?!`)(?<inCode>[^`]|[^`][\s\S]{0,1000}?[^`])\k<code>(?!`)|\*\*(?<strong>[^\s*](?:(?:(?!\*\*)[\s\S]){0,1000}?[^\s*])?)\*\*|(?<![\w*])[*](?<em>[^\s*](?:[^*]*?[^\s*])?)[*](?![\w*])|(?<!\w)_(?<em2>[^\s_](?:[^_]*?[^\s_])?)_(?!\w)|~~(?<del>[^~]+)~~|\[(?<label>[^\]\[]{1,500})\]\((?<href>[^\s)]{1,2000})\)|(?<url>https?:\/\/[^\s<>"'`）】」]{1,2000}[^\s<>"'`.,;:!?)）】」。，、])/gu;
const DEEPEST = 4;
/** A longer line is shown as it is: somebody may want to keep the page busy with it. */
const LONGEST_LINE = 2000;

function webAddress(text: string): string | null {
  try {
    const url = new URL(text);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}

function Link({ href, children }: { href: string; children: ComponentChild }): VNode {
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow" title={href}>
      {children}
    </a>
  );
}

function inline(text: string, depth = 0): ComponentChild[] {
  const result: ComponentChild[] = [];
  let from = 0;
  const plain = (part: string): void => void (part && result.push(<Plain text={part} />));
  for (const match of depth > DEEPEST || text.length > LONGEST_LINE ? [] : text.matchAll(INLINE)) {
    const { inCode, strong, em, em2, del, label, href, url } = match.groups as Record<string, string | undefined>;
    const target = webAddress(href ?? url ?? "");
    if ((href ?? url) !== undefined && target === null) continue;
    plain(text.slice(from, match.index));
    from = match.index + match[0].length;
    const slanted = em ?? em2;
    if (inCode !== undefined) result.push(<code><Plain text={inCode} /></code>);
    else if (strong !== undefined) result.push(<strong>{inline(strong, depth + 1)}</strong>);
    else if (slanted !== undefined) result.push(<em>{inline(slanted, depth + 1)}</em>);
    else if (del !== undefined) result.push(<s>{inline(del, depth + 1)}</s>);
    else result.push(<Link href={target!}>{label === undefined ? <Plain text={url!} /> : inline(label, depth + 1)}</Link>);
  }
  plain(text.slice(from));
  return result;
}

const lines = (list: string[]): ComponentChild[] => list.flatMap((line, at) => [at ? <br /> : null, ...inline(line)]);

const cells = (line: string): string[] => line.trim().replace(/^\||\|$/g, "").split("|").map((each) => each.trim());

interface Block {
  begins: RegExp;
  goesOn: RegExp;
  shown: (list: string[], depth: number) => VNode;
}

const strip = (list: string[], prefix: RegExp): string[] => list.map((line) => line.replace(prefix, ""));

function items(list: string[], prefix: RegExp, depth: number): VNode[] {
  const found: string[][] = [];
  for (const line of list) {
    if (prefix.test(line)) found.push([line.replace(prefix, "")]);
    else found.at(-1)?.push(line.replace(/^ {1,4}|^\t/, ""));
  }
  return found.map((each) => <li>{each.length > 1 ? blocks(each, depth + 1) : inline(each[0]!)}</li>);
}

const BULLET = /^[-*+] +/;
const NUMBER = /^\d{1,9}[.)] +/;

const BLOCKS: Block[] = [
  {
    begins: /^#{1,6} +\S/,
    goesOn: /^$(?!)/,
    // Headings of a message are not headings of the page.
    shown: ([line = ""]) => <p class="heading">{inline(line.replace(/^#+ +/, "").replace(/ #{1,6}$/, ""))}</p>,
  },
  { begins: /^ {0,3}([-*_])( *\1){2,} *$/, goesOn: /^$(?!)/, shown: () => <hr /> },
  {
    begins: /^>/,
    goesOn: /^>/,
    shown: (list, depth) => <blockquote>{blocks(strip(list, /^> ?/), depth + 1)}</blockquote>,
  },
  { begins: BULLET, goesOn: /^([-*+] +|\s+\S)/, shown: (list, depth) => <ul>{items(list, BULLET, depth)}</ul> },
  { begins: NUMBER, goesOn: /^(\d{1,9}[.)] +|\s+\S)/, shown: (list, depth) => <ol>{items(list, NUMBER, depth)}</ol> },
];

function table(list: string[]): VNode {
  const [head = "", , ...rows] = list;
  return (
    <div class="scroll" tabIndex={0} role="group">
      <table>
        <thead>
          <tr>{cells(head).map((each) => <th scope="col">{inline(each)}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>{cells(row).map((each) => <td>{inline(each)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// No expression here may take more than one look at each character, whatever the line holds.
const FENCE = /^ {0,3}(`{3,}(?!`)|~{3,}(?!~))[^`]*$/;
const RULE_OF_TABLE = /^\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)+\|?$/;

function taken(list: string[], from: number, goesOn: (line: string) => boolean): number {
  let end = from + 1;
  while (end < list.length && goesOn(list[end]!)) end++;
  return end;
}

function blocks(list: string[], depth = 0): VNode[] {
  if (depth > DEEPEST) return [<p>{lines(list)}</p>];
  const result: VNode[] = [];
  for (let at = 0; at < list.length; ) {
    const line = list[at]!;
    const fence = FENCE.exec(line);
    const block = BLOCKS.find((each) => each.begins.test(line));
    let end = at + 1;
    if (!line.trim()) {
      // Nothing is there.
    } else if (fence) {
      end = taken(list, at, (each) => !each.trim().startsWith(fence[1]!));
      result.push(<Code text={list.slice(at + 1, end).join("\n")} />);
      end++;
    } else if (line.includes("|") && RULE_OF_TABLE.test((list[at + 1] ?? "").trim())) {
      end = taken(list, at, (each) => each.includes("|"));
      result.push(table(list.slice(at, end)));
    } else if (block) {
      end = taken(list, at, (each) => block.goesOn.test(each));
      result.push(block.shown(list.slice(at, end), depth));
    } else {
      end = taken(list, at, (each) => !!each.trim() && !FENCE.test(each) && !BLOCKS.some((other) => other.begins.test(each)));
      result.push(<p>{lines(list.slice(at, end))}</p>);
    }
    at = end;
  }
  return result;
}

/** A piece of code, or anything else whose lines and spaces matter. */
export function Code({ text }: { text: string }): VNode {
  return (
    <pre tabIndex={0}>
      <code>
        <Plain text={text} />
      </code>
    </pre>
  );
}

const LONGEST = 200_000;
const MOST_LINES = 5000;

/** What a model or a person wrote. */
export function Markdown({ text }: { text: string }): VNode {
  const shown = text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text;
  const list = shown.split(/\r\n|\r|\n/);
  return (
    <div class="markdown" dir="auto">
      {list.length > MOST_LINES ? <Code text={list.join("\n")} /> : blocks(list)}
    </div>
  );
}
