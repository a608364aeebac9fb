// Checks the links of the site that was built: node check.mjs FOLDER
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

// check fails if a link or an image of a page leads to nothing on the site, or if a page loads something from elsewhere.
function check(folder) {
  const files = new Set(readdirSync(folder, { recursive: true }).map(name => name.replaceAll(path.sep, '/')));
  const pages = new Map();
  for (const name of files) {
    if (name.endsWith('.html')) pages.set(name, readFileSync(path.join(folder, name), 'utf8'));
  }
  const names = new Map([...pages].map(([name, html]) => [name, new Set(attributes(html, /\sid="([^"]*)"/g))]));
  const wrong = [];
  for (const [name, html] of pages) {
    const here = new URL(name, 'http://site/');
    for (const target of attributes(html, /<a\s[^>]*?href="([^"]*)"/g)) {
      const url = new URL(target, here);
      if (url.host !== 'site') continue;
      const file = decodeURIComponent(url.pathname.slice(1)).replace(/^$|\/$/, '$&index.html');
      const page = files.has(file) ? file : `${file}.html`;
      const anchor = decodeURIComponent(url.hash.slice(1));
      if (!files.has(page)) wrong.push(`${name}: there is no ${target}`);
      else if (anchor && !names.get(page)?.has(anchor)) wrong.push(`${name}: ${page} has no heading ${anchor}`);
    }
    for (const target of attributes(html, /<(?:img|script|link|iframe)\s[^>]*?(?:src|href)="([^"]*)"/g)) {
      const url = new URL(target, here);
      if (url.protocol === 'data:') continue;
      if (url.host !== 'site') wrong.push(`${name} loads ${target}`);
      else if (!files.has(decodeURIComponent(url.pathname.slice(1)))) wrong.push(`${name}: there is no ${target}`);
    }
  }
  for (const name of files) {
    if (name.endsWith('.css') && /@import|url\(["']?(https?:)?\/\//.test(readFileSync(path.join(folder, name), 'utf8')))
      wrong.push(`${name} loads something from elsewhere`);
  }
  if (pages.size === 0) wrong.push('there are no pages');
  if (wrong.length > 0) throw new Error(`the site has wrong links:\n${[...new Set(wrong)].join('\n')}`);
}

const attributes = (html, pattern) => [...html.matchAll(pattern)].map(found => found[1].replaceAll('&amp;', '&').replaceAll('&quot;', '"'));

check(process.argv[2]);
