# Functions that the packaging scripts share.
packaging=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$packaging")
version=${NAGI_VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)}
# Times within packages, so that equal sources make equal packages.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH LC_ALL=C

fail() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# need PROGRAM PACKAGE...: installs packages of the distribution if the program is missing
need() {
  command -v "$1" >/dev/null && return 0
  command -v apt-get >/dev/null || fail "please install ${*:2}"
  echo "installing ${*:2} ..." >&2
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${@:2}" >/dev/null
}

# generate KIND FILE: man page or completions as the program prints them (NAGI_GENERATOR: another program that does)
generate() {
  mkdir -p "$(dirname "$2")"
  "${NAGI_GENERATOR:-$binary}" generate "$1" >"$2" || fail "'nagi generate $1' failed"
  [ -s "$2" ] || fail "'nagi generate $1' printed nothing"
}

# documents FOLDER: man page and completions in the places of a /usr
documents() {
  generate man "$1/share/man/man1/nagi.1"
  generate bash "$1/share/bash-completion/completions/nagi"
  generate zsh "$1/share/zsh/vendor-completions/_nagi"
  generate fish "$1/share/fish/vendor_completions.d/nagi.fish"
}

# strip_to FILE: the program without the lines of its source; backtraces keep the names of functions
strip_to() { strip --strip-debug -R .comment -o "$1" "$binary" && chmod 755 "$1"; }
