import stat
import tomllib
from pathlib import Path

import pytest

from runtime.config import CONFIG_VARIABLE, DEFAULT_FILE, ENV_PREFIX, Config, load_config, write_config
from runtime.errors import ConfigError


@pytest.fixture(autouse=True)
def _no_variables_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith(ENV_PREFIX):
            monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "headrace.toml"


def test_the_default_file_holds_every_key_and_nothing_else() -> None:
    tree = tomllib.loads(DEFAULT_FILE.read_text())
    dumped = load_config().model_dump(mode="json")
    assert load_config(DEFAULT_FILE).model_dump(mode="json") == dumped
    assert tree.keys() == Config.model_fields.keys()
    for section, keys in tree.items():
        if isinstance(keys, dict):
            assert keys.keys() == dumped[section].keys()


def test_a_file_needs_only_the_keys_that_differ(file: Path) -> None:
    file.write_text("[kafka]\npartitions = 8\n")
    config = load_config(file)
    assert config.kafka.partitions == 8
    assert config.kafka.bootstrap_servers == load_config().kafka.bootstrap_servers


def test_the_environment_wins_over_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("[kafka]\npartitions = 8\nreplication_factor = 3\n")
    monkeypatch.setenv("HEADRACE_KAFKA__PARTITIONS", "16")
    config = load_config(file)
    assert (config.kafka.partitions, config.kafka.replication_factor) == (16, 3)


def test_overrides_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_KAFKA__PARTITIONS", "16")
    monkeypatch.setenv("HEADRACE_METRICS_PORT", "1")
    config = load_config(overrides={"kafka": {"partitions": 32}})
    assert (config.kafka.partitions, config.metrics_port) == (32, 1)


def test_other_defaults_lie_beneath_whatever_is_given(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("[kafka]\npartitions = 8\n")
    monkeypatch.setenv("HEADRACE_METRICS_PORT", "1")
    other = {"metrics_port": 2, "state_dir": "other", "kafka": {"partitions": 3, "replication_factor": 5}}
    config = load_config(file, {"state_dir": "given"}, other)
    assert (config.metrics_port, config.kafka.partitions, config.state_dir) == (1, 8, Path("given"))
    assert config.kafka.replication_factor == 5
    assert config.kafka.bootstrap_servers == load_config().kafka.bootstrap_servers


def test_the_file_can_be_named_by_the_environment(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("metrics_port = 0\n")
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    assert load_config().metrics_port == 0


def test_client_properties_pass_through_untouched(file: Path) -> None:
    file.write_text('[kafka.client]\n"security.protocol" = "SASL_SSL"\n"socket.timeout.ms" = 1000\n')
    assert load_config(file).kafka.client == {"security.protocol": "SASL_SSL", "socket.timeout.ms": 1000}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[kafka]\npartitions = 'many'", r"kafka\.partitions = 'many': .*integer"),
        ("[kafka]\npartitions = 0", r"kafka\.partitions = 0: .*greater than or equal to 1"),
        ("[kafka]\npartitions = 201", r"kafka\.partitions = 201: .*less than or equal to 200"),
        ("[kafka]\npartition = 8", r"unknown configuration key kafka\.partition; did you mean partitions\?"),
        ("[kafak]\npartitions = 8", r"unknown configuration key kafak; did you mean kafka\?"),
        ("zzz = 1", r"unknown configuration key zzz; known are .*kafka"),
        ("kafka = 3", r"kafka = 3: "),
        ("parts = 1", r"unknown configuration key parts; known are "),
        ("[kafka.client]\nx = [1]", r"^configuration key kafka\.client\.x: .*one text, number, true or false$"),
        ("state_dir = ''", r"state_dir = '': .*the current folder"),
        ("cache_dir = ' '", r"cache_dir = ' ': .*the current folder"),
        ("[redis]\nurl = 'localhost:6379'", r"redis\.url = 'localhost:6379': "),
        ("[stack]\nparts = ['zookeeper']", r"stack\.parts\.0 = 'zookeeper': .*kafka"),
        ("[neighbours]\nstep_decay = 1.5", r"neighbours\.step_decay = 1\.5: "),
        ("[kafka\n", r"headrace\.toml is not a TOML file"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_key(file: Path, text: str, complaint: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        load_config(file)


def test_all_mistakes_are_reported_at_once(file: Path) -> None:
    file.write_text("[kafka]\npartitions = 0\nreplication_factor = 0\n")
    with pytest.raises(ConfigError, match=r"kafka\.partitions(.|\n)*kafka\.replication_factor"):
        load_config(file)


def test_bytes_that_are_no_text_are_no_toml(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not a TOML file"):
        load_config(file)


def test_a_missing_file_is_an_error_with_its_path(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"no configuration file at .*headrace\.toml; pass another with --config"):
        load_config(file)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("HEADRACE_METRICS_PORT__X", "unknown environment variable HEADRACE_METRICS_PORT__X; did you mean"),
        ("HEADRACE_STATE_DIR__", "unknown environment variable HEADRACE_STATE_DIR__; did you mean"),
        ("HEADRACE_CONFIG__X", "unknown environment variable HEADRACE_CONFIG__X; did you mean"),
        ("HEADRACE_KAFKA__PARTITIONS__X", r"kafka\.partitions = {'x': '8'}"),
        ("HEADRACE_KAKFA__PARTITIONS", "unknown environment variable HEADRACE_KAKFA__PARTITIONS; did you mean"),
        ("HEADRACE_KAFKA__PARTITION", r"unknown configuration key kafka\.partition; did you mean partitions\?"),
    ],
)
def test_an_unknown_variable_is_refused(name: str, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "8")
    with pytest.raises(ConfigError, match=complaint):
        load_config()


def test_a_variable_of_the_wrong_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_REDIS__TTL_S", "soon")
    with pytest.raises(ConfigError, match=r"redis\.ttl_s = 'soon'"):
        load_config()


@pytest.mark.parametrize("value", ["kafka", " ", '{"partitions"'])
@pytest.mark.parametrize("name", ["HEADRACE_KAFKA", "HEADRACE_KAFKA__CLIENT", "HEADRACE_STACK__PARTS"])
def test_a_variable_that_should_hold_json_and_does_not_is_named_without_its_value(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("HEADRACE_STACK__START_TIMEOUT_S", "30")
    with pytest.raises(ConfigError, match=rf"^{name} is not JSON \(.*\); write"):
        load_config()


def test_the_tree_is_frozen() -> None:
    config = load_config()
    with pytest.raises(ValueError, match="frozen"):
        config.kafka.partitions = 8  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        config.metrics_port = 8  # type: ignore[misc]


def test_a_written_configuration_is_loaded_as_the_same_tree(tmp_path: Path) -> None:
    config = load_config(
        overrides={
            "state_dir": tmp_path / "state",
            "cache_dir": tmp_path / "cache",
            "kafka": {"partitions": 8, "client": {"security.protocol": "SSL"}},
        }
    )
    file = tmp_path / "new" / "folder" / "headrace.toml"
    write_config(config, file)
    assert load_config(file).model_dump() == config.model_dump()


def test_a_written_configuration_names_its_folders_absolutely(tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    write_config(load_config(overrides={"state_dir": "here"}), file)
    assert load_config(file).state_dir == Path("here").resolve()


@pytest.mark.parametrize("existed", [True, False])
def test_only_the_owner_can_read_a_written_configuration(tmp_path: Path, existed: bool) -> None:
    file = tmp_path / "headrace.toml"
    if existed:
        file.touch(0o644)
    write_config(load_config(), file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("name", ["acks", "partitioner", "enable.auto.commit", "group.id"])
def test_a_client_property_that_our_guarantees_depend_on_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"kafka.client.*{name} is set by Headrace"):
        load_config(overrides={"kafka": {"client": {name: "x"}}})
    assert load_config(overrides={"kafka": {"client": {"security.protocol": "SSL"}}}).kafka.client


def test_an_error_does_not_show_the_credentials_in_an_address() -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(overrides={"redis": {"url": "http://me:secret@somewhere"}})
    assert "http://somewhere" in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("client", [{"acks": "1", "sasl.password": "secret"}, {"sasl.password": ["secret"]}])
def test_an_error_does_not_show_a_client_s_password(client: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(overrides={"kafka": {"client": client}})
    assert "secret" not in str(raised.value)
