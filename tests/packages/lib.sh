# Functions of the tests of packages: minimal systems, and a systemd that boots in one.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${NAGI_CACHE:-$HOME/.cache/nagi}
work=$(mktemp -d "${TMPDIR:-/var/tmp}/nagi-packages.XXXXXX")
leader=""
booted=""

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

check() { # check TEXT COMMAND...
  "${@:2}" || fail "$1 (${*:2})"
}

as_expected() { # as_expected TEXT FOUND EXPECTED
  [ "$2" = "$3" ] || fail "$1: found '$2', expected '$3'"
}

query() { # query COMMAND...: sent in the network of the process `network` or of the booted system, if there is one
  local of=${network:-$leader}
  if [ -n "$of" ]; then
    nsenter --target "$of" --net "$here/query" "$port" "$@"
  else
    "$here/query" "$port" "$@"
  fi
}

discard() { # discard FOLDER: what an interrupted debootstrap left, without what it had mounted
  local mount
  for mount in proc sys dev; do umount -l "$1/$mount" 2>/dev/null || true; done
  rm -rf --one-file-system "$1"
}

# system NAME FOLDER [PACKAGE,...]: a minimal Debian or Ubuntu, installed once and then copied
system() {
  local mirror=http://deb.debian.org/debian check=() kept=$cache/roots/$1-$(echo "${3:-}" | md5sum | cut -c1-8)
  case $1 in
  bionic | focal | jammy | noble)
    mirror=http://archive.ubuntu.com/ubuntu
    [ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ] || check=(--no-check-gpg)
    ;;
  esac
  if [ ! -d "$kept" ]; then
    mkdir -p "$cache/roots"
    local done=0 _
    for _ in 1 2 3; do # a mirror may be busy
      discard "$kept.part"
      debootstrap --variant=minbase "${check[@]}" ${3:+--include="$3"} "$1" "$kept.part" "$mirror" \
        >"$work/debootstrap.log" 2>&1 && done=1 && break
    done
    [ "$done" = 1 ] || { tail -n 5 "$work/debootstrap.log"; fail "debootstrap $1"; }
    rm -rf "$kept.part"/var/cache/apt/archives/*.deb
    mv "$kept.part" "$kept"
  fi
  cp -a --reflink=auto "$kept" "$2"
}

# boot FOLDER: starts the systemd of a system, with a network of its own
boot() {
  booted=$1
  systemd-nspawn --quiet -D "$1" --boot --register=no --keep-unit --private-network --kill-signal=SIGRTMIN+3 \
    >"$work/boot.log" 2>&1 </dev/null &
  nspawn=$!
  local _
  for _ in $(seq 300); do
    leader=$(pgrep -P "$nspawn" -f 'systemd|init' | head -n 1 || true)
    [ -n "$leader" ] && inside systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded' && return 0
    kill -0 "$nspawn" 2>/dev/null || break
    sleep 0.2
  done
  tail -n 5 "$work/boot.log"
  fail "systemd did not boot in $1"
}

inside() { # inside COMMAND...: as root in the booted system
  nsenter --target "$leader" --mount --uts --ipc --net --pid --root --wdns=/root -- \
    /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive "$@"
}

power_off() {
  [ -n "$leader" ] || return 0
  inside systemctl poweroff >/dev/null 2>&1 || kill "$nspawn" 2>/dev/null || true
  local _
  for _ in $(seq 100); do
    kill -0 "$nspawn" 2>/dev/null || break
    sleep 0.2
  done
  kill -9 "$leader" 2>/dev/null || true
  wait "$nspawn" 2>/dev/null || true
  leader=""
}

finish() {
  local code=$?
  [ "$code" = 0 ] || [ -z "$leader" ] || inside sh -c 'journalctl -u nagi -n 20 --no-pager; tail -n 5 /var/log/nagi/nagi.log' >&2 || true
  power_off || true
  rm -rf --one-file-system "$work"
  exit "$code"
}
trap finish EXIT
set -E
trap 'echo "FAILED: line $LINENO: $BASH_COMMAND" >&2' ERR
