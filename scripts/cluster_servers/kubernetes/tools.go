//go:build tools

// Package tools names the programs of Kubernetes that are built, so that go.mod and go.sum have what they need.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
)
