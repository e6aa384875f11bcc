#!/bin/sh
# Prints the folder with the servers of a cluster for the tests, which `make cluster-servers` (this script with `build`) puts into the
# user's cache. Where they are not there, prints what to do to stderr and exits with 1: tests that need them are skipped, and were not run.
#
#   scripts/cluster_servers.sh yarn [build]          jars of the resource manager and the node manager, by Maven
#   scripts/cluster_servers.sh kubernetes [build]    kube-apiserver, kube-controller-manager and etcd, by Go: ten minutes of two cores
#   scripts/cluster_servers.sh helm [build]          the program that renders deploy/helm, by Go
set -eu

own=$(cd "$(dirname "$0")" && pwd)/cluster_servers
cache=${TIDEGATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tidegate}
cluster=$1

log() { printf '%s\n' "cluster-servers: $*" >&2; }

case $cluster in
yarn) name=hadoop-yarn-3.5.0 needs=Maven command=mvn ;;
kubernetes) name=kubernetes-v1.34.4 needs="Go 1.26" command=go ;;
helm) name=helm-v3.22.0 needs="Go 1.26" command=go ;;
*)
    log "there are servers of yarn and kubernetes, and helm, not $cluster"
    exit 2
    ;;
esac

if [ -d "$cache/$name" ]; then
    printf '%s\n' "$cache/$name"
    exit
fi
if [ "${2:-}" != build ]; then
    log "the servers of $cluster for the tests are not there: run \`make cluster-servers\`, which needs $needs."
    exit 1
fi
if ! command -v "$command" >/dev/null; then
    log "the servers of $cluster need $needs: install it, then run \`make cluster-servers\` again."
    exit 1
fi
# The rename keeps tests from starting half of the servers.
mkdir -p "$cache"
folder=$(mktemp -d "$cache/.$name-XXXXXX")
trap 'rm -rf "$folder"' EXIT
case $cluster in
yarn)
    # Maven compares each file with the checksum of its repository.
    mvn --batch-mode --quiet --strict-checksums --file "$own/yarn.xml" \
        org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies "-DoutputDirectory=$folder/lib" >&2
    ;;
kubernetes)
    # Go compares the sources with go.sum. They are compiled without being asked for again: the lock is the one that was tested.
    (
        cd "$own/kubernetes"
        for program in k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager ./etcd; do
            go build -mod=readonly -trimpath -ldflags '-s -w' -o "$folder/bin/" "$program"
        done
    )
    ;;
helm)
    (cd "$own/helm" && go build -mod=readonly -trimpath -ldflags '-s -w' -o "$folder/bin/" helm.sh/helm/v3/cmd/helm)
    ;;
esac
chmod 755 "$folder"
mv "$folder" "$cache/$name"
printf '%s\n' "$cache/$name"
