"""The Dockerfile and the compose file, read: no container engine is needed."""

import glob
import json
import os
import re
import shlex
import subprocess

import harness

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(REPOSITORY, "deploy/docker")
INSTRUCTIONS = {"ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "USER",
                "VOLUME", "WORKDIR"}


def instructions():
    """(instruction, arguments) of each logical line."""
    with open(os.path.join(FOLDER, "Dockerfile"), encoding="utf-8") as file:
        text = re.sub(r"^#.*\n", "", file.read(), flags=re.M).replace("\\\n", " ")
    return [tuple(line.strip().split(None, 1)) for line in text.splitlines() if line.strip()]


def arguments_of(name):
    return [arguments for instruction, arguments in instructions() if instruction == name]


def compose():
    # Debian's Python has Debian's YAML parser.
    convert = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"
    with open(os.path.join(FOLDER, "compose.yaml"), encoding="utf-8") as file:
        return json.loads(subprocess.run(["/usr/bin/python3", "-c", convert], stdin=file,
                                         stdout=subprocess.PIPE, check=True).stdout)


class Docker(harness.TestCase):
    def test_instructions_are_known_and_stages_exist(self):
        self.assertEqual([line for line in instructions() if line[0] not in INSTRUCTIONS or len(line) < 2], [])
        bases = [arguments.split() for arguments in arguments_of("FROM")]
        self.assertEqual({base[0] for base in bases}, {"debian:bookworm-slim"})
        stages = {base[2] for base in bases if len(base) == 3 and base[1] == "AS"}
        used = {stage for copy in arguments_of("COPY") for stage in re.findall(r"--from=(\S+)", copy)}
        self.assertEqual(used, stages)

    def test_what_is_copied_exists_and_is_all_that_cmake_reads(self):
        copied = [source for copy in arguments_of("COPY") if "--from" not in copy
                  for source in copy.split()[:-1]]
        for source in copied:
            self.assertTrue(os.path.exists(os.path.join(REPOSITORY, source)), source)
        read = {"CMakeLists.txt"}
        for path in ["CMakeLists.txt", *glob.glob("cmake/*.cmake", root_dir=REPOSITORY)]:
            with open(os.path.join(REPOSITORY, path), encoding="utf-8") as file:
                text = file.read()
            read |= set(re.findall(r"\$\{PROJECT_SOURCE_DIR\}/([\w.]+)", text))
            read |= set(re.findall(r"add_subdirectory\((\w+)", text))
        self.assertEqual(read - set(copied) - {"tests"}, set())  # the release preset has no tests

    def test_packages_are_those_of_the_project(self):
        with open(os.path.join(REPOSITORY, "scripts/packages.txt"), encoding="utf-8") as file:
            known = {line.strip() for line in file if not line.startswith("#")}
        wanted = set()
        for command in arguments_of("RUN"):
            for words in re.findall(r"apt-get install ([^&]+)", command):
                wanted |= {word for word in shlex.split(words) if not word.startswith(("-", "/"))}
        self.assertGreater(len(wanted), 20)
        self.assertEqual(wanted - known, set())
        # Everything that the build looks for is in the image.
        self.assertEqual({name for name in known if name.startswith("lib") and name.endswith("-dev")
                          and "clang" not in name} - wanted, set())

    def test_commands_are_those_of_the_program(self):
        entry = json.loads(arguments_of("ENTRYPOINT")[0])
        self.assertEqual(entry[0], "holdfast")
        config = os.path.join(REPOSITORY, "deploy/holdfast.toml")
        service = compose()["services"]["holdfast"]
        for words in (json.loads(arguments_of("CMD")[0]), service["command"]):
            words = [word.replace("/etc/holdfast/holdfast.toml", config) for word in words]
            answer = harness.run(*entry[1:], *words, "--print-config")
            self.assertEqual(answer.code, 0, answer)
            self.assertIn('data_dir = "/var/lib/holdfast/data"', answer.out)

    def test_the_health_check_answers(self):
        server = self.server()
        for words in (json.loads(re.search(r"CMD (\[.*\])", arguments_of("HEALTHCHECK")[0]).group(1)),
                      compose()["services"]["holdfast"]["healthcheck"]["test"][1:]):
            self.assertEqual(words[0], "holdfast")
            self.assertEqual(harness.run(*words[1:], env={"HOLDFAST_ENDPOINTS": server.address}).code, 0)
        server.kill()
        answer = harness.run(*words[1:], env={"HOLDFAST_ENDPOINTS": server.address})
        self.assertEqual(answer.code, 69, answer)

    def test_compose_file(self):
        document = compose()
        service = document["services"]["holdfast"]
        build = service["build"]
        self.assertEqual(os.path.realpath(os.path.join(FOLDER, build["context"])), os.path.realpath(REPOSITORY))
        self.assertTrue(os.path.exists(os.path.join(REPOSITORY, build["dockerfile"])))
        volumes = dict(volume.split(":") for volume in service["volumes"])
        self.assertEqual(set(volumes), set(document["volumes"]))
        self.assertEqual(set(volumes.values()), set(arguments_of("VOLUME")))
        exposed = set(arguments_of("EXPOSE")[0].split())
        listened = {word.rsplit(":", 1)[1] for word in service["command"] if "0.0.0.0:" in word}
        self.assertEqual(listened, exposed)
        for port in service["ports"]:
            host, outside, inside = port.split(":")
            self.assertEqual((host, outside), ("127.0.0.1", inside))
            self.assertIn(inside, exposed)


if __name__ == "__main__":
    harness.main()
