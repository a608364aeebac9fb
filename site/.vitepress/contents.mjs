// The pages of the site, and its navigation, from the table of contents.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

const contents = 'docs/README.md';

// pages returns the files of the site with the names that they have on it.
export function pages(root) {
  const docs = readdirSync(path.join(root, 'docs'), { recursive: true })
    .map(name => name.replaceAll(path.sep, '/'))
    .filter(name => name.endsWith('.md') && name !== 'README.md');
  return [
    ['README.md', 'start.md'],
    ['CONTRIBUTING.md', 'contributing.md'],
    [contents, 'index.md'],
    ...docs.map(name => [`docs/${name}`, name.toLowerCase().replace(/readme\.md$/, 'index.md')]),
  ];
}

// address is where a page of the site is, without the ending of its file.
export const address = name => `/${name.replace(/(^|\/)index\.md$/, '$1').replace(/\.md$/, '')}`;

// references are what the site has for files of the repository without being pages of it: scripts/site.sh puts them there. Links to them have to leave the application that
// the site is in the browser.
export const references = new Map([['clients/js/README.md', '/reference/client-js/index.html']]);
export const leave = '_self';

// sidebar has a group for each section of the table of contents, a group in it for each subsection, and an entry for each item of its lists
// that begins with a link to a page. The subsections of all sections but the first can be folded, and are. It fails if a page of docs is
// missing. Pages in folders of docs need no entry.
export function sidebar(root) {
  const names = new Map(pages(root));
  const missing = new Set([...names.keys()].filter(name => name.split('/').length < 3));
  missing.delete(contents);
  const groups = [];
  let group;
  for (const line of readFileSync(path.join(root, contents), 'utf8').split('\n')) {
    const [, marks, title] = line.match(/^(##|###) (.+)$/) ?? [];
    if (title) {
      group = { text: title, items: [] };
      if (marks === '##') groups.push(group);
      else groups.at(-1).items.push(groups.length > 1 ? { ...group, collapsed: true } : group);
    }
    const [, text, target] = line.match(/^\* \[([^\]]+)\]\(([^)]+)\)/) ?? [];
    if (!text) continue;
    const [file, anchor] = target.split('#');
    const source = path.posix.join('docs', file);
    if (references.has(source)) group.items.push({ text, link: references.get(source), target: leave });
    if (!names.has(source)) continue; // an example, which is not on the site
    missing.delete(source);
    group.items.push({ text, link: `${address(names.get(source))}${anchor ? `#${anchor}` : ''}` });
  }
  if (missing.size > 0) throw new Error(`${contents} has no item for ${[...missing].join(', ')}`);
  return groups;
}
