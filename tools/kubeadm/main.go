// Command kubeadm-types reads one document of kubeadm's by kubeadm's own types, as strictly as `kubeadm config validate` does: a field
// that they do not have, or a value of another form, is an error. It prints what was read, with kubeadm's defaults, in kubeadm's newest
// version.
package main

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/scheme"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintf(os.Stderr, "usage: %s FILE\n", os.Args[0])
		os.Exit(2)
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict)
	read := &kubeadm.JoinConfiguration{}
	if err := runtime.DecodeInto(strict.UniversalDecoder(), text, read); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json, _ := runtime.SerializerInfoForMediaType(strict.SupportedMediaTypes(), runtime.ContentTypeJSON)
	written, err := runtime.Encode(strict.EncoderForVersion(json.Serializer, v1beta4.SchemeGroupVersion), read)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%s", written)
}
