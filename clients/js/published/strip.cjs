// A loader for webpack: takes types away.
const { transform } = require("esbuild");

module.exports = function (source) {
  const done = this.async();
  transform(source, { loader: "ts" }).then(({ code }) => done(null, code), done);
};
