"""The Kubernetes base and the compose file of a cluster, read: no engine is needed."""

import json
import os
import re
import subprocess

import harness

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KUBERNETES = os.path.join(REPOSITORY, "deploy/kubernetes")
COMPOSE = os.path.join(REPOSITORY, "deploy/docker/cluster.yaml")
API = {"Namespace": "v1", "Service": "v1", "StatefulSet": "apps/v1", "PodDisruptionBudget": "policy/v1",
       "NetworkPolicy": "networking.k8s.io/v1"}
CONTAINER = {"name", "image", "env", "command", "args", "ports", "readinessProbe", "livenessProbe",
             "resources", "securityContext", "volumeMounts"}
POD = {"terminationGracePeriodSeconds", "securityContext", "affinity", "containers", "volumes"}


def documents(path):
    # Debian's Python has Debian's YAML parser.
    convert = "import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)"
    with open(path, encoding="utf-8") as file:
        return json.loads(subprocess.run(["/usr/bin/python3", "-c", convert], stdin=file,
                                         stdout=subprocess.PIPE, check=True).stdout)


def flags_of(verb):
    return set(re.findall(r"(--[a-z][a-z-]*)", harness.run(*verb.split(), "--help").out))


class Kubernetes(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.kustomization = documents(os.path.join(KUBERNETES, "kustomization.yaml"))[0]
        self.objects = [one for name in self.kustomization["resources"]
                        for one in documents(os.path.join(KUBERNETES, name))]

    def of_kind(self, kind):
        return {one["metadata"]["name"]: one for one in self.objects if one["kind"] == kind}

    def test_every_object_is_of_a_known_kind_and_version(self):
        for one in self.objects:
            self.assertEqual(API.get(one["kind"]), one["apiVersion"], one["metadata"])

    def test_everything_that_is_named_exists(self):
        services, sets = self.of_kind("Service"), self.of_kind("StatefulSet")
        images = {image["name"] for image in self.kustomization["images"]}
        for name, one in sets.items():
            self.assertIn(one["spec"]["serviceName"], services)
            labels = one["spec"]["template"]["metadata"]["labels"]
            self.assertEqual(labels, one["spec"]["selector"]["matchLabels"])
            pod = one["spec"]["template"]["spec"]
            self.assertLessEqual(set(pod), POD)
            volumes = {volume["name"] for volume in pod.get("volumes", [])} | {
                claim["metadata"]["name"] for claim in one["spec"]["volumeClaimTemplates"]}
            for container in pod["containers"]:
                self.assertLessEqual(set(container), CONTAINER)
                self.assertIn(container["image"], images)
                self.assertEqual({mount["name"] for mount in container["volumeMounts"]}, volumes, name)
                ports = {port["name"] for port in container["ports"]}
                for probe in ("readinessProbe", "livenessProbe"):
                    if probe in container:
                        self.assertIn(container[probe]["httpGet"]["port"], ports)
        for service in services.values():
            self.assertIn(service["spec"]["selector"]["app"], sets)
        for budget in self.of_kind("PodDisruptionBudget").values():
            self.assertEqual(1, budget["spec"]["maxUnavailable"])
        for generator in self.kustomization["configMapGenerator"]:
            for file in generator["files"]:
                self.assertTrue(os.path.isfile(os.path.join(KUBERNETES, file)))

    def test_three_of_each_in_zones_of_their_own(self):
        for one in self.of_kind("StatefulSet").values():
            self.assertEqual(3, one["spec"]["replicas"])
            rules = one["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][
                "requiredDuringSchedulingIgnoredDuringExecution"]
            self.assertEqual(["topology.kubernetes.io/zone"], [rule["topologyKey"] for rule in rules])

    def test_the_server_takes_the_command(self):
        pod = self.of_kind("StatefulSet")["holdfast"]["spec"]["template"]["spec"]
        arguments = [argument.replace("$(POD_NAME)", "holdfast-0").replace(
            "/etc/holdfast/holdfast.toml", os.path.join(KUBERNETES, "holdfast.toml"))
            for argument in pod["containers"][0]["args"]]
        answer = harness.run("server", *arguments, "--print-config")
        self.assertEqual(0, answer.code, answer)
        self.assertIn('address = "holdfast-0.holdfast:7430"', answer.out)


class Compose(harness.TestCase):
    def test_services_volumes_and_flags(self):
        compose = documents(COMPOSE)[0]
        flags = flags_of("server")
        nodes = {name: one for name, one in compose["services"].items() if name.startswith("node")}
        self.assertEqual(3, len(nodes))
        self.assertEqual(6, len(compose["services"]))
        for name, one in compose["services"].items():
            self.assertTrue(os.path.isfile(os.path.join(REPOSITORY, one["build"]["dockerfile"])))
            for volume in one["volumes"]:
                self.assertIn(volume.split(":")[0], compose["volumes"])
            for argument in one["command"]:
                if name in nodes:
                    self.assertIn(argument.split("=")[0], flags)
                    if argument.startswith("--etcd="):
                        for member in argument.partition("=")[2].split(","):
                            self.assertIn(member.split(":")[0], compose["services"])

    def test_the_server_takes_the_command(self):
        for name, one in documents(COMPOSE)[0]["services"].items():
            if name.startswith("node"):
                arguments = [argument for argument in one["command"] if "--config" not in argument]
                answer = harness.run("server", "--data-dir", "x", *arguments, "--print-config")
                self.assertEqual(0, answer.code, answer)


if __name__ == "__main__":
    harness.main()
