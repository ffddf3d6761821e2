#!/usr/bin/env bash
# Real file systems, memory limits and slow disks for `nagi-bench`, on one Linux machine. Needs root.
#
#   limits.sh fs ext3|ext4|xfs SIZE DIR MOUNTPOINT   makes an image in DIR, mounts it, prints its loop device
#   limits.sh umount MOUNTPOINT                      unmounts it, frees the device, deletes the image
#   limits.sh run [OPTIONS] -- COMMAND...            runs COMMAND inside the limits, exits with its code
#       --memory SIZE        limit of the memory cgroup (page cache of the command counts, swap is off)
#       --swap yes           leaves swap on in that cgroup, to see who is swapped out
#       --disk fast|5000|600|150  reads and direct writes a second on the device under --on
#       --on MOUNTPOINT      the file system whose device is throttled
#       --fs TYPE --size SIZE --dir DIR   also makes the file system at --on first, and removes it at the end
#       --with-parent yes    ends when the process that started it ends, however that does
#       --pid-file FILE      the process id of COMMAND, for programs that watch it
#   limits.sh throttle fast|5000|600|150 MOUNTPOINT PID   changes the disk of a running `run --on MOUNTPOINT`
#   limits.sh clean DIR      removes what a killed run left: file systems on images in DIR, empty cgroups
#
# SIZE is bytes or a number with K, M or G. Images are sparse: the blocks are allocated as they are
# written. The loop device does direct I/O on the image, so that the page cache of the host hides nothing.
#
# The disks of the working-set measurement are 5,000 IOPS, 600 IOPS + 7 ms and 150 IOPS + 7 ms. A delay
# of each request would need the device mapper, which not every kernel has, so the throttle stands
# alone. With 16 readers that changes little where the disk is the limit: at 600 IOPS a reader waits
# 16 / 600 s = 27 ms for its turn anyway. Where nearly all reads hit the cache, the few that miss are
# answered faster than on the original disk: compare such cells only with each other.
# cgroup v1 throttles direct writes and all reads, but not the writing back of the page cache.
set -euo pipefail

mark=nagi-limits
die() { echo "limits.sh: $*" >&2; exit 1; }

bytes() {
  [[ $1 =~ ^([0-9]{1,12})([KMG]?)$ ]] || die "'$1' is not a size: bytes, or a number with K, M or G"
  case ${BASH_REMATCH[2]} in
    K) echo $((10#${BASH_REMATCH[1]} << 10)) ;;
    M) echo $((10#${BASH_REMATCH[1]} << 20)) ;;
    G) echo $((10#${BASH_REMATCH[1]} << 30)) ;;
    *) echo $((10#${BASH_REMATCH[1]})) ;;
  esac
}

make_fs() { # TYPE SIZE DIR MOUNTPOINT
  local type=$1 size dir=$3 mount=$4 image device made=0
  # Rounded up to whole megabytes: the size of a loop device is a multiple of a sector.
  size=$(((($(bytes "$2") + 1048575) >> 20) << 20))
  case $type in ext3 | ext4 | xfs) ;; *) die "'$type' is not one of ext3, ext4, xfs" ;; esac
  command -v "mkfs.$type" >/dev/null || die "mkfs.$type is missing (Debian: apt-get install $([ "$type" = xfs ] && echo xfsprogs || echo e2fsprogs))"
  [ -d "$dir" ] || die "no directory $dir"
  mountpoint -q "$mount" 2>/dev/null && die "something is mounted at $mount already"
  [ "$(df --output=avail -B1 "$dir" | tail -n 1)" -gt "$size" ] || die "less than $2 free in $dir"
  image=$(mktemp "$dir/$mark-XXXXXX.img")
  truncate -s "$size" "$image"
  [ -d "$mount" ] || { mkdir -p "$mount"; made=1; }
  device=
  if device=$(losetup --find --show --direct-io=on "$image") \
    && "mkfs.$type" -q "$([ "$type" = xfs ] && echo -f || echo -F)" "$device" >&2 \
    && mount -o noatime "$device" "$mount"; then
    echo "$device"
    return
  fi
  [ -n "$device" ] && losetup --detach "$device"
  rm -f "$image"
  [ "$made" = 1 ] && rmdir "$mount"
  die "could not make $type at $mount"
}

drop_device() { # DEVICE: frees it and deletes its image, if this script created the image
  local image
  image=$(losetup --noheadings --output BACK-FILE "$1" | head -n 1)
  losetup --detach "$1"
  case ${image##*/} in $mark-*.img) rm -f "$image" ;; esac
}

umount_fs() { # MOUNTPOINT
  local device image tries
  device=$(findmnt --noheadings --output SOURCE --mountpoint "$1") || die "nothing is mounted at $1"
  image=$(losetup --noheadings --output BACK-FILE "$device" 2>/dev/null | head -n 1)
  case ${image##*/} in $mark-*.img) ;; *) die "$1 was not mounted by this script" ;; esac
  # A server that has just exited may hold its files for a moment.
  for tries in 1 2 3 4 5 6 7 8 9 10; do
    if umount "$1" 2>/dev/null; then break; fi
    [ "$tries" -lt 10 ] || die "$1 is still in use"
    sleep 0.5
  done
  drop_device "$device"
}

clean() { # DIR
  local image device mount dir
  for image in "$1/$mark"-*.img; do
    [ -e "$image" ] || continue
    for device in $(losetup --noheadings --output NAME --associated "$image"); do
      for mount in $(findmnt --noheadings --output TARGET --source "$device"); do
        umount "$mount"
      done
      losetup --detach "$device"
    done
    rm -f "$image"
  done
  # rmdir fails for a cgroup that contains processes: it belongs to a running `run`.
  for dir in /sys/fs/cgroup/{,memory/,blkio/}"$mark"-*; do
    [ ! -d "$dir" ] || rmdir "$dir" 2>/dev/null || true
  done
}

# --- run -----------------------------------------------------------------------------------------

groups=()      # cgroup folders created by this run
mounted=       # file system created by this run
child=
watcher=       # terminates this run when its parent has exited

finish() {
  local code=$? dir tries
  trap - EXIT
  # From here on the script must not be interrupted or exit early.
  set +e
  trap '' INT TERM HUP
  [ -z "$watcher" ] || kill "$watcher" 2>/dev/null
  if [ -n "$child" ]; then
    kill -TERM "$child" 2>/dev/null
    # With little memory or on a slow disk an orderly shutdown takes long.
    for ((tries = 0; tries < 120; tries++)); do
      kill -0 "$child" 2>/dev/null || break
      sleep 0.5
    done
    kill -KILL "$child" 2>/dev/null
    wait "$child" 2>/dev/null
  fi
  for dir in "${groups[@]}"; do
    for tries in 1 2 3 4 5 6 7 8 9 10; do
      # Processes that the command left running would keep the cgroup and the file system busy.
      xargs -r -n 1 kill -KILL <"$dir/cgroup.procs" 2>/dev/null
      rmdir "$dir" 2>/dev/null && break
      sleep 0.2
    done
  done
  if [ -n "$mounted" ]; then umount_fs "$mounted" || code=1; fi
  exit "$code"
}

make_group() { # FOLDER
  mkdir "$1" || die "cannot make the cgroup $1"
  groups+=("$1")
}

limit_memory() { # BYTES [yes: swap stays on]
  if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    v2_group +memory
    echo "$1" >"$v2/memory.max"
    [ "${2:-}" = yes ] || [ ! -f "$v2/memory.swap.max" ] || echo 0 >"$v2/memory.swap.max"
  else
    [ -d /sys/fs/cgroup/memory ] || die "no memory cgroup controller is mounted"
    local dir=/sys/fs/cgroup/memory/$mark-$$
    make_group "$dir"
    echo "$1" >"$dir/memory.limit_in_bytes"
    # The file is absent without swap accounting; then there is nothing to turn off.
    [ "${2:-}" = yes ] || echo "$1" >"$dir/memory.memsw.limit_in_bytes" 2>/dev/null || true
  fi
}

limit_disk() { # DISK MOUNTPOINT: creates a cgroup, also for `fast`, so that the limit can be changed later
  if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    v2_group +io
    set_disk "$v2" "$1" "$2"
  else
    [ -f /sys/fs/cgroup/blkio/blkio.throttle.read_iops_device ] || die "this kernel has no I/O throttle (CONFIG_BLK_DEV_THROTTLING)"
    make_group /sys/fs/cgroup/blkio/$mark-$$
    set_disk /sys/fs/cgroup/blkio/$mark-$$ "$1" "$2"
  fi
}

set_disk() { # GROUP DISK MOUNTPOINT
  local device number file
  device=$(findmnt --noheadings --output SOURCE --target "$3") || die "nothing is mounted at $3"
  number=$(lsblk --noheadings --nodeps --output MAJ:MIN "$device" | tr -d ' ') || die "$device is not a block device"
  if [ -f "$1/io.max" ]; then
    echo "$number riops=${2/fast/max} wiops=${2/fast/max}" >"$1/io.max"
    return
  fi
  for file in read write; do
    echo "$number ${2/fast/0}" >"$1/blkio.throttle.${file}_iops_device"
  done
}

throttle() { # DISK MOUNTPOINT PID
  local group
  check_disk "$1"
  group=$(sed -n 's,^[0-9]*:\(blkio\|\):\(/'"$mark"'-[0-9]*\)$,\1\2,p' "/proc/$3/cgroup" 2>/dev/null | head -n 1)
  [ -n "$group" ] || die "process $3 does not run under this script with --on"
  set_disk "/sys/fs/cgroup/$group" "$1" "$2"
}

check_disk() {
  case $1 in fast | 5000 | 600 | 150) ;; *) die "the disk '$1' is not one of fast, 5000, 600, 150" ;; esac
}

v2=
v2_group() { # CONTROLLER: the only cgroup of this run in the unified hierarchy
  echo "$1" >/sys/fs/cgroup/cgroup.subtree_control || die "the $1 controller cannot be enabled here"
  [ -n "$v2" ] && return
  v2=/sys/fs/cgroup/$mark-$$
  make_group "$v2"
}

run() {
  local memory= swap= disk=fast on= type= size= dir= pid_file= with_parent=
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    [ $# -ge 2 ] || die "$1 needs a value"
    case $1 in
      --memory) memory=$(bytes "$2") ;;
      --swap) swap=$2 ;;
      --disk) disk=$2 ;;
      --on) on=$2 ;;
      --fs) type=$2 ;;
      --size) size=$2 ;;
      --dir) dir=$2 ;;
      --pid-file) pid_file=$2 ;;
      --with-parent) with_parent=$2 ;;
      *) die "unknown option $1" ;;
    esac
    shift 2
  done
  [ "${1:-}" = -- ] || die "run needs -- and a command"
  shift
  [ $# -gt 0 ] || die "run needs a command after --"
  check_disk "$disk"
  case $swap in '' | yes) ;; *) die "--swap takes yes" ;; esac
  [ "$disk$type" = fast ] || [ -n "$on" ] || die "--disk and --fs need --on MOUNTPOINT"

  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  if [ -n "$type" ]; then
    [ -n "$size" ] && [ -n "$dir" ] || die "--fs needs --size and --dir"
    make_fs "$type" "$size" "$dir" "$on" >/dev/null
    mounted=$on
  fi
  [ -z "$memory" ] || limit_memory "$memory" "$swap"
  [ -z "$on" ] || limit_disk "$disk" "$on"
  (
    trap - EXIT INT TERM HUP
    for group in "${groups[@]}"; do echo "$BASHPID" >"$group/cgroup.procs"; done
    exec "$@"
  ) &
  child=$!
  if [ "$with_parent" = yes ]; then
    (
      trap - EXIT INT TERM HUP
      while [ "$(ps -o ppid= -p $$ | tr -d ' ')" = "$PPID" ]; do sleep 1; done
      kill -TERM $$
    ) >/dev/null 2>&1 &
    watcher=$!
  fi
  [ -z "$pid_file" ] || echo "$child" >"$pid_file"
  local code=0
  wait "$child" || code=$?
  child=
  exit "$code"
}

usage() { sed -n '2,/^set -/{/^#/!d;s/^# \{0,1\}//;p}' "$0"; }

case ${1:-} in
  -h | --help | '') usage; exit 0 ;;
esac
[ "$(id -u)" = 0 ] || die "needs root: mounting, loop devices and cgroups belong to the system's administrator"
[ "$(uname -s)" = Linux ] || die "needs Linux"
case $1 in
  fs) [ $# = 5 ] || die "fs needs TYPE SIZE DIR MOUNTPOINT"; make_fs "$2" "$3" "$4" "$5" ;;
  umount) [ $# = 2 ] || die "umount needs MOUNTPOINT"; umount_fs "$2" ;;
  run) shift; run "$@" ;;
  throttle) [ $# = 4 ] || die "throttle needs DISK MOUNTPOINT PID"; throttle "$2" "$3" "$4" ;;
  clean) [ $# = 2 ] || die "clean needs DIR"; clean "$2" ;;
  *) die "unknown command '$1'; see --help" ;;
esac
