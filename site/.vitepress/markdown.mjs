// What the site makes of the Markdown of the repository.
import { statSync } from 'node:fs';
import path from 'node:path';
import { renderMermaidSVG } from 'beautiful-mermaid';
import { address, leave, pages, references } from './contents.mjs';

// slug is the name of a heading in links, as GitHub makes it.
export const slug = heading =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');

// plain shows code without the words behind the language of its fence, which are for the tests; leaves comments
// out; draws diagrams; and leads links to pages of the site, or to the repository.
export function plain(md, { root, repository }) {
  const names = new Map(pages(root));

  const lead = (target, source) => {
    if (/^[a-z]+:|^#/.test(target)) return target;
    const [file, anchor] = target.split('#');
    const found = path.posix.join(path.posix.dirname(source), file);
    const hash = anchor ? `#${anchor}` : '';
    if (names.has(found)) {
      const to = address(names.get(found));
      return `${to}${to.endsWith('/') ? '' : '.html'}${hash}`;
    }
    if (references.has(found)) return references.get(found);
    const kind = statSync(path.join(root, found)).isDirectory() ? 'tree' : 'blob';
    return `${repository}/${kind}/main/${found}${hash}`;
  };

  md.core.ruler.push('gyro', state => {
    const source = path.relative(root, state.env.realPath ?? state.env.path).replaceAll(path.sep, '/');
    state.tokens = state.tokens.filter(token => token.type !== 'html_block' || !token.content.startsWith('<!--'));
    for (const token of state.tokens) {
      if (token.type === 'fence') token.info = token.info.trim().split(/\s/)[0];
      for (const child of token.children ?? []) {
        const href = child.type === 'link_open' && child.attrGet('href');
        if (!href) continue;
        const to = lead(href, source);
        child.attrSet('href', to);
        if ([...references.values()].includes(to)) child.attrSet('target', leave);
      }
    }
  });

  const fence = md.renderer.rules.fence;
  md.renderer.rules.fence = (tokens, index, ...rest) => (tokens[index].info === 'mermaid' ? diagram(tokens[index].content) : fence(tokens, index, ...rest));
}

// diagram draws a diagram of Mermaid. The theme has its colours and font, as the style of the drawing names a
// font of another site. The arrow at the beginning of a line is drawn backwards already.
function diagram(text) {
  const svg = renderMermaidSVG(text, { bg: 'var(--vp-c-bg)', fg: 'var(--vp-c-text-1)', transparent: true })
    .replace(/<style>.*?<\/style>/s, '')
    .replace(/(id="arrowhead-start"[^>]*)auto-start-reverse/, '$1auto')
    .replace('<svg ', '<svg role="img" aria-label="Diagram" ');
  const count = (pattern, within) => within.match(pattern)?.length ?? 0;
  // Those before the first message are lost.
  if (count(/^\s*Note /gm, text) !== count(/class="note"/g, svg)) throw new Error(`a note of this diagram is not drawn:\n${text}`);
  return `<div class="diagram" tabindex="0" v-pre>${svg}</div>\n`;
}
