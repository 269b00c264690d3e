// Package main runs Kubernetes' own end-to-end specs of scheduling (k8s.io/kubernetes/test/e2e/scheduling) against the
// cluster of a kubeconfig.
//
// The specs come from the Go module registry as they are published. What stands here is what Kubernetes' own suite does
// before its first spec, without everything that is about other specs: flags, the IP family, and the number of nodes.
// `--ginkgo.json-report` writes what each spec came to; python -m tests.kubernetes.e2e reads it.
package main

import (
	"context"
	"flag"
	"os"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	e2enode "k8s.io/kubernetes/test/e2e/framework/node"

	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
)

// The suite's verdict, in place of a testing.T.
type verdict struct{ failed bool }

func (v *verdict) Fail() { v.failed = true }

var _ = ginkgo.BeforeSuite(func(ctx context.Context) {
	client, err := framework.LoadClientset()
	framework.ExpectNoError(err)
	nodes, err := e2enode.GetReadySchedulableNodes(ctx, client)
	framework.ExpectNoError(err)
	framework.TestContext.CloudConfig.NumNodes = len(nodes.Items)
	framework.TestContext.IPFamily = "ipv4"
})

func main() {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	framework.AfterReadingAllFlags(&framework.TestContext)
	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := framework.CreateGinkgoConfig()
	result := &verdict{}
	ginkgo.RunSpecs(result, "Kubernetes' scheduling specs", suite, reporter)
	if result.failed {
		os.Exit(1)
	}
}
