package doctor

import (
	"math"
	"runtime"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/encoder"
	"assay/sidecar/localmodel"
)

// outcome is what a test expects of findings: the most severe status, and parts of the finding with it.
type outcome struct {
	status Status
	says   []string
}

func (o outcome) of(t *testing.T, found []Finding) {
	t.Helper()
	severity := map[Status]int{OK: 0, Warning: 1, Error: 2}
	require.NotEmpty(t, found)
	worst := found[0]
	for _, f := range found {
		require.Equal(t, f.Status == OK, f.Fix == "", "a fix is for a problem: %v", f)
		require.NotEmpty(t, f.Check)
		if severity[f.Status] > severity[worst.Status] {
			worst = f
		}
	}
	require.Equal(t, o.status, worst.Status, worst)
	for _, part := range o.says {
		require.Contains(t, worst.Detail+"\n"+worst.Fix, part)
	}
}

func files(content map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, text := range content {
		root[name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	return root
}

func TestLimitsOfControlGroups(t *testing.T) {
	const gib = 1 << 30
	for name, tc := range map[string]struct {
		files map[string]string
		want  limits
	}{
		"none":          {map[string]string{}, limits{}},
		"v2, container": {map[string]string{"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "150000 100000", "sys/fs/cgroup/memory.max": "2147483648"}, limits{1.5, 2 * gib}},
		"v2, no limit":  {map[string]string{"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "max 100000", "sys/fs/cgroup/memory.max": "max"}, limits{}},
		"v2, nested": {map[string]string{
			"proc/self/cgroup":                                 "0::/system.slice/assay.service",
			"sys/fs/cgroup/system.slice/cpu.max":               "200000 100000",
			"sys/fs/cgroup/system.slice/memory.max":            "1073741824",
			"sys/fs/cgroup/system.slice/assay.service/cpu.max": "max 100000", "sys/fs/cgroup/system.slice/assay.service/memory.max": "4294967296",
		}, limits{2, gib}},
		"v2, path of the host": {map[string]string{"proc/self/cgroup": "0::/kubepods/pod7/abc", "sys/fs/cgroup/cpu.max": "50000 100000"}, limits{0.5, 0}},
		"v1": {map[string]string{
			"proc/self/cgroup": "11:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n1:name=systemd:/",
			"sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us":  "300000",
			"sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000",
			"sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes":  "3221225472",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":             "9223372036854771712",
		}, limits{3, 3 * gib}},
		"v1, mounted by name": {map[string]string{
			"proc/self/cgroup":                    "11:cpuacct,cpu:/",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":  "-1",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
		}, limits{}},
		"hybrid": {map[string]string{
			"proc/self/cgroup":                           "4:memory:/\n0::/user",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824",
			"sys/fs/cgroup/unified/user/cpu.max":         "100000 100000",
		}, limits{1, gib}},
		"garbage": {map[string]string{"proc/self/cgroup": "0::/\nx\n::", "sys/fs/cgroup/cpu.max": "many", "sys/fs/cgroup/memory.max": "-7"}, limits{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readLimits(files(tc.files))
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestThreads(t *testing.T) {
	for name, tc := range map[string]struct {
		threads
		outcome
	}{
		"all CPUs":               {threads{goMaxProcs: 8, affinity: 8}, outcome{OK, []string{"8 threads (--threads 0) on 8 CPUs"}}},
		"fewer":                  {threads{setting: 2, goMaxProcs: 8, affinity: 8}, outcome{OK, []string{"2 threads (--threads)"}}},
		"more than CPUs":         {threads{setting: 16, goMaxProcs: 8, affinity: 8}, outcome{Warning, []string{"16 threads", "--threads 8"}}},
		"more than the quota":    {threads{setting: 8, goMaxProcs: 2, affinity: 8, quota: 1.5}, outcome{Warning, []string{"1.5 CPUs, the limit of its control group (8 CPUs on the machine)", "--threads 2"}}},
		"a part of a CPU":        {threads{goMaxProcs: 2, affinity: 8, quota: 0.5}, outcome{Warning, []string{"0.5 CPUs", "--threads 1"}}},
		"rounded quota":          {threads{goMaxProcs: 2, affinity: 8, quota: 1.5}, outcome{OK, nil}},
		"quota above the CPUs":   {threads{goMaxProcs: 4, affinity: 4, quota: 16}, outcome{OK, []string{"on 4 CPUs"}}},
		"OpenMP's limit":         {threads{goMaxProcs: 8, openMP: "2", affinity: 8}, outcome{Warning, []string{"OMP_THREAD_LIMIT=2 allows 2", "unset OMP_THREAD_LIMIT"}}},
		"OpenMP's limit is more": {threads{goMaxProcs: 2, openMP: "64", affinity: 2}, outcome{OK, nil}},
		"variable above a quota": {threads{goMaxProcs: 8, variable: "8", affinity: 8, quota: 2}, outcome{Warning, []string{"GOMAXPROCS", "unset GOMAXPROCS"}}},
	} {
		t.Run(name, func(t *testing.T) { tc.of(t, tc.findings()) })
	}
}

func TestMemory(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	shipped := memory{machine: 16 * gib, model: 45 * mib, versions: 2, cache: 64 * mib, requests: gib}
	with := func(change func(*memory)) memory {
		m := shipped
		change(&m)
		return m
	}
	for name, tc := range map[string]struct {
		memory
		outcome
	}{
		"enough":             {shipped, outcome{OK, []string{"up to 2.5 GiB", "the machine has 16 GiB"}}},
		"the limit decides":  {with(func(m *memory) { m.limit = 2 * gib }), outcome{Warning, []string{"the limit of the control group is 2.0 GiB", "--request-memory"}}},
		"a limit above":      {with(func(m *memory) { m.limit = 64 * gib }), outcome{OK, []string{"the machine has 16 GiB"}}},
		"enough for the pod": {with(func(m *memory) { m.limit, m.requests = 2*gib, 512*mib }), outcome{OK, nil}},
		"small machine":      {with(func(m *memory) { m.machine = 2 * gib }), outcome{Warning, []string{"may kill"}}},
		"the model only":     {with(func(m *memory) { m.model = 8 * gib }), outcome{Error, []string{"2 x (8.0 GiB for the model"}}},
		"unknown model":      {with(func(m *memory) { m.model = 0 }), outcome{OK, []string{"whose size is unknown"}}},
		"unknown machine":    {with(func(m *memory) { m.machine = 0 }), outcome{OK, []string{"unknown"}}},
	} {
		t.Run(name, func(t *testing.T) { tc.of(t, tc.findings()) })
	}
	require.EqualValues(t, 24684220<<10, readMachineMemory(files(map[string]string{"proc/meminfo": "MemTotal:       24684220 kB\nMemFree:        1 kB"})))
	require.Zero(t, readMachineMemory(files(nil)))
}

func TestSizes(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 46 << 20: "46 MiB", 3 << 29: "1.5 GiB", 64 << 30: "64 GiB", 1 << 50: "1024 TiB"} {
		require.Equal(t, want, size(bytes))
	}
}

func TestOpenFiles(t *testing.T) {
	outcome{Warning, []string{"at most 1024 open files", "65536"}}.of(t, openFiles(1024))
	outcome{OK, nil}.of(t, openFiles(fewFiles))
	outcome{OK, []string{"no limit"}}.of(t, openFiles(math.MaxUint64))
}

func TestProcessor(t *testing.T) {
	all := []encoder.Precision{encoder.FP32, encoder.BF16, encoder.Int8}
	zen4 := processor{arch: "amd64", avx2: true, avx512: true, avx512bf16: true, vnni: true, device: "cpu", precisions: all, setting: encoder.Auto}
	with := func(change func(*processor)) processor {
		p := zen4
		change(&p)
		return p
	}
	for name, tc := range map[string]struct {
		processor
		outcome
	}{
		"all features":      {zen4, outcome{OK, []string{"amd64 with AVX2, AVX-512, AVX-512 BF16, VNNI", "auto is bf16"}}},
		"int8":              {with(func(p *processor) { p.setting = encoder.Int8 }), outcome{OK, []string{"--precision int8"}}},
		"int8 without AVX2": {with(func(p *processor) { p.setting, p.avx2, p.precisions = encoder.Int8, false, all[:2] }), outcome{Error, []string{"not supported", "AVX2"}}},
		"fp32 with VNNI":    {with(func(p *processor) { p.avx512bf16 = false }), outcome{Warning, []string{"auto is fp32", "--precision int8"}}},
		"fp32 without VNNI": {with(func(p *processor) { p.avx512bf16, p.precisions = false, all[:2] }), outcome{Warning, []string{"auto is fp32"}}},
		"fp32 by choice":    {with(func(p *processor) { p.avx512bf16, p.setting = false, encoder.FP32 }), outcome{OK, nil}},
		"bf16 without BF16": {with(func(p *processor) { p.avx512bf16, p.setting = false, encoder.BF16 }), outcome{Warning, []string{"--precision auto"}}},
		"no AVX2": {with(func(p *processor) {
			p.avx2, p.avx512, p.avx512bf16, p.vnni, p.precisions = false, false, false, false, all[:2]
		}), outcome{Warning, []string{"without AVX2"}}},
		"Arm": {processor{arch: "arm64", device: "cpu", precisions: all[:2], setting: encoder.Auto}, outcome{OK, []string{"auto is fp32"}}},
		"GPU": {with(func(p *processor) { p.device, p.avx2 = "cuda:0", false }), outcome{OK, []string{"cuda:0"}}},
	} {
		t.Run(name, func(t *testing.T) { tc.of(t, tc.findings()) })
	}
	this, err := readProcessor(localmodel.Compute{Precision: encoder.Auto})
	require.NoError(t, err)
	require.Equal(t, runtime.GOARCH, this.arch)
	require.Contains(t, this.precisions, encoder.FP32)
	_, err = readProcessor(localmodel.Compute{Device: "cuda:99"})
	require.ErrorContains(t, err, "cuda:99")
}

func TestClock(t *testing.T) {
	built := time.Date(2026, 11, 23, 7, 0, 0, 0, time.UTC)
	outcome{OK, nil}.of(t, clock(built.Add(time.Hour), built))
	outcome{OK, nil}.of(t, clock(built, time.Time{}))
	outcome{Warning, []string{"before the commit of this binary"}}.of(t, clock(built.Add(-time.Hour), built))
	outcome{Error, []string{"1970-01-01"}}.of(t, clock(time.Unix(7, 0), built))

	require.Empty(t, skew("x", maxSkew))
	outcome{Warning, []string{"the clock of the NATS server is 1m0s ahead of"}}.of(t, skew("the NATS server", time.Minute))
	outcome{Warning, []string{"behind"}}.of(t, skew("the NATS server", -time.Minute))
}
