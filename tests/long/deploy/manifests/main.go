// Command manifests reads the files of deploy/ for Compose and Kubernetes as those do, and fails on a member that they do not know.
// It prints each container. It has a module of its own: the service needs nothing of what reads them.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigs "sigs.k8s.io/yaml"
)

// container is what a file has run. Mounts has folders of the container, by what is mounted there. Log is the driver and its tag.
type container struct {
	File, Name, Image, Dir, Log string
	Args, Ports, Profiles       []string
	Env, Mounts                 map[string]string
	ReadOnly                    bool
	User                        int64
	Grace                       time.Duration
	Suspended                   bool
	Probes                      map[string]*core.Probe `json:",omitempty"`
}

func main() {
	log.SetFlags(0)
	var all []container
	for _, path := range os.Args[1:] {
		read := kubernetes
		if filepath.Base(path) == "compose.yaml" {
			read = compose
		}
		found, err := read(path)
		if err != nil {
			log.Fatalf("%s: %v", path, err)
		}
		all = append(all, found...)
	}
	json.NewEncoder(os.Stdout).Encode(all)
}

func compose(path string) (all []container, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	project, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir: "/etc/worldevents", ConfigFiles: []types.ConfigFile{{Filename: filepath.Base(path), Content: text}},
	}, func(o *loader.Options) { o.Profiles = []string{"*"} })
	if err != nil {
		return nil, err
	}
	for _, s := range project.Services {
		c := container{File: filepath.Base(path), Name: s.Name, Image: s.Image, Dir: s.WorkingDir, Args: s.Command, Profiles: s.Profiles, ReadOnly: s.ReadOnly,
			Env: make(map[string]string), Mounts: make(map[string]string)}
		for name, value := range s.Environment {
			if value == nil {
				return nil, fmt.Errorf("%s: %s is that of the shell", s.Name, name)
			}
			c.Env[name] = *value
		}
		for _, v := range s.Volumes {
			c.Mounts[v.Target] = v.Source
		}
		for _, p := range s.Ports {
			c.Ports = append(c.Ports, strings.TrimPrefix(fmt.Sprintf("%s:%s:%d", p.HostIP, p.Published, p.Target), ":"))
		}
		if s.Logging != nil {
			c.Log = s.Logging.Driver + " " + s.Logging.Options["tag"]
		}
		if s.StopGracePeriod != nil {
			c.Grace = time.Duration(*s.StopGracePeriod)
		}
		all = append(all, c)
	}
	return all, nil
}

func kubernetes(path string) (all []container, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	maps := make(map[string]core.ConfigMap)
	pod := func(name string, spec core.PodSpec) error {
		for _, from := range spec.Containers {
			c := container{File: filepath.Base(path), Name: name, Image: from.Image, Args: from.Args, Env: make(map[string]string), Mounts: make(map[string]string),
				ReadOnly: *from.SecurityContext.ReadOnlyRootFilesystem, User: *spec.SecurityContext.RunAsUser}
			for _, source := range from.EnvFrom {
				config, found := maps[source.ConfigMapRef.Name]
				if !found {
					return fmt.Errorf("%s: no ConfigMap %s", name, source.ConfigMapRef.Name)
				}
				for name, value := range config.Data {
					c.Env[name] = value
				}
			}
			if len(from.Env) > 0 {
				return errors.New("settings stand in the ConfigMap")
			}
			for _, m := range from.VolumeMounts {
				if m.SubPath != "" {
					return fmt.Errorf("%s: what subPath mounts is never updated", name)
				}
				c.Mounts[m.MountPath] = m.Name
			}
			if spec.TerminationGracePeriodSeconds != nil {
				c.Grace = time.Duration(*spec.TerminationGracePeriodSeconds) * time.Second
			}
			if from.StartupProbe != nil {
				c.Probes = map[string]*core.Probe{"startup": from.StartupProbe, "readiness": from.ReadinessProbe, "liveness": from.LivenessProbe}
			}
			all = append(all, c)
		}
		return nil
	}
	for documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text))); ; {
		document := make([]byte, len(text))
		n, err := documents.Read(document)
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var kind struct{ APIVersion, Kind string }
		if err := sigs.Unmarshal(document[:n], &kind); err != nil {
			return nil, err
		}
		object := map[string]any{
			"v1 ConfigMap": new(core.ConfigMap), "v1 Secret": new(core.Secret), "v1 Service": new(core.Service), "v1 PersistentVolumeClaim": new(core.PersistentVolumeClaim),
			"apps/v1 Deployment": new(apps.Deployment), "apps/v1 StatefulSet": new(apps.StatefulSet), "batch/v1 CronJob": new(batch.CronJob),
			"policy/v1 PodDisruptionBudget": new(policy.PodDisruptionBudget), "networking.k8s.io/v1 Ingress": new(networking.Ingress),
		}[kind.APIVersion+" "+kind.Kind]
		if object == nil {
			return nil, fmt.Errorf("unknown: %+v", kind)
		}
		if err := sigs.UnmarshalStrict(document[:n], object); err != nil {
			return nil, err
		}
		switch o := object.(type) {
		case *core.ConfigMap:
			maps[o.Name] = *o
		case *apps.Deployment:
			err = pod(o.Name, o.Spec.Template.Spec)
		case *apps.StatefulSet:
			err = pod(o.Name, o.Spec.Template.Spec)
		case *batch.CronJob:
			before := len(all)
			err = pod(o.Name, o.Spec.JobTemplate.Spec.Template.Spec)
			for i := before; i < len(all); i++ {
				all[i].Suspended = o.Spec.Suspend != nil && *o.Spec.Suspend
			}
		}
		if err != nil {
			return nil, err
		}
	}
}
