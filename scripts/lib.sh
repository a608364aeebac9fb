# What the scripts share; to be sourced from the root of the repository.

step() { printf '\n== %s\n' "$*"; }

# retry runs a command that needs the network.
retry() {
  for pause in 2 5; do
    "$@" && return
    echo "failed, trying again in $pause s: $*" >&2
    sleep "$pause"
  done
  "$@"
}

# as_root is for what needs root.
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# need PROGRAM… installs programs that are missing, with the packages that gyrotest/need knows for them.
need() { go run github.com/gyrohq/gyro/tools/loop -install "$@"; }

# alone NAME COMMAND… waits until no other script is between its alone NAME and the end of its COMMAND.
alone() { (flock 9; "${@:2}") 9>"${TMPDIR:-/tmp}/gyro-${1//\//-}.lock"; }

# modules FOLDER installs the npm packages of a folder.
modules() {
  # npm writes the inner one when it is done.
  [ "$1/node_modules/.package-lock.json" -nt "$1/package-lock.json" ] || alone "$(realpath "$1")" modules_missing "$1"
}
modules_missing() { [ "$1/node_modules/.package-lock.json" -nt "$1/package-lock.json" ] || retry npm --prefix "$1" ci --silent --no-audit --no-fund; }

# venv FOLDER REQUIREMENTS keeps a Python environment up to date.
venv() { cmp -s "$2" "$1/installed" || alone "$(realpath -m "$1")" venv_stale "$1" "$2"; }
venv_stale() {
  if ! cmp -s "$2" "$1/installed"; then
    need python3-venv
    python3 -m venv --clear "$1"
    retry "$1/bin/pip" install --quiet --disable-pip-version-check -r "$2"
    cp "$2" "$1/installed"
  fi
}


# jars FOLDER POM keeps the jars that a project of Maven needs up to date.
jars() { cmp -s "$2" "$1/installed" || alone "$(realpath -m "$1")" jars_stale "$1" "$2"; }
jars_stale() {
  if ! cmp -s "$2" "$1/installed"; then
    need javac mvn
    rm -rf "$1"
    retry mvn --quiet --batch-mode --file "$2" dependency:copy-dependencies "-DoutputDirectory=$(realpath -m "$1")"
    cp "$2" "$1/installed"
  fi
}
