## Where did it stop?
cat migrate.py; ls -A records; head -c 60 records/*.json; cat records/.backup/*
## The half-written file comes back from the backup; then only files of format 1 are converted.
mv records/.backup/r12.json records/r12.json && rmdir records/.backup
python3 - <<'EOF'
import json, pathlib
for path in pathlib.Path("records").glob("*.json"):
    record = json.loads(path.read_text())
    if record["format"] == 1:
        path.write_text(json.dumps({"format": 2, "cents": record["euros"] * 100}))
EOF
cat records/*.json
