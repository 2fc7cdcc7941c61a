#!/usr/bin/env bash
# usage: install_deps.sh [PACKAGE...]
#
# Installs the packages of scripts/packages.txt, or only those of them that are named, on Debian 12,
# as root or through sudo, and asks nothing. With everything installed it returns at once and
# changes nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

for name in "$@"; do
  if ! grep -qxF -- "${name}" packages.txt; then
    echo "install_deps: ${name} is not in scripts/packages.txt" >&2
    exit 64
  fi
done
wanted=$(if [[ $# -gt 0 ]]; then printf '%s\n' "$@"; else grep -v '^#' packages.txt; fi | sort)

missing_packages() {
  local installed
  # What another package provides counts as well: a newer nodejs brings npm, and excludes Debian's.
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package} ${Provides}\n' | sed -n 's/^installed //p' |
    sed -E 's/\([^)]*\)//g' | tr -s ' ,' '\n' | sort -u)
  comm -23 <(echo "${wanted}") <(echo "${installed}")
}

# Redis, etcd and PostgreSQL are started by tests and benches, on ports of their own. Debian
# would start them as services as well; this guard says no while we install.
guard=/usr/sbin/policy-rc.d
saved_guard=""

forbid_service_starts() {
  if [[ -e ${guard} || -L ${guard} ]]; then
    saved_guard=$(mktemp -d)
    mv "${guard}" "${saved_guard}/policy-rc.d"
  fi
  trap restore_guard EXIT
  printf '#!/bin/sh\nexit 101\n' >"${guard}"
  chmod 755 "${guard}"
}

restore_guard() {
  rm -f "${guard}"
  if [[ -n ${saved_guard} ]]; then
    mv "${saved_guard}/policy-rc.d" "${guard}"
    rmdir "${saved_guard}"
  fi
}

if ! command -v apt-get >/dev/null; then
  echo "install_deps: needs apt-get (Debian 12); docs/DEPENDENCIES.md lists what to install" >&2
  exit 69
fi
mapfile -t missing < <(missing_packages)
if [[ ${#missing[@]} -eq 0 ]]; then
  exit 0
fi
if [[ ${EUID} -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "install_deps: run as root, or install sudo; missing: ${missing[*]}" >&2
    exit 77
  fi
  echo "installing ${#missing[@]} Debian packages through sudo"
  exec sudo bash "$(pwd)/$(basename "${BASH_SOURCE[0]}")" "$@"
fi

echo "installing ${#missing[@]} Debian packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt_options=(-y --no-install-recommends -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0)
forbid_service_starts
apt-get update -o DPkg::Lock::Timeout=600
apt-get install "${apt_options[@]}" "${missing[@]}"
if command -v systemctl >/dev/null; then
  for service in redis-server:redis-server etcd-server:etcd postgresql:postgresql \
                 prometheus:prometheus; do
    if [[ " ${missing[*]} " == *" ${service%%:*} "* ]]; then
      systemctl --quiet disable "${service##*:}" || true  # nor at the next boot
    fi
  done
fi
mapfile -t missing < <(missing_packages)
if [[ ${#missing[@]} -ne 0 ]]; then
  echo "install_deps: still missing: ${missing[*]}" >&2
  exit 69
fi
