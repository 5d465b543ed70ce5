package doctor

import (
	"fmt"
	"math"
	"strconv"
)

// threads are what the process may compute with.
type threads struct {
	setting    int     // --threads; 0: goMaxProcs
	goMaxProcs int     // what Go selected, or the variable GOMAXPROCS
	variable   string  // the variable GOMAXPROCS
	openMP     string  // the variable OMP_THREAD_LIMIT
	affinity   int     // CPUs that the process may run on
	quota      float64 // of its control group; 0: none
}

func (t threads) findings() []Finding {
	used, source := t.setting, "--threads"
	if used == 0 {
		used, source = t.goMaxProcs, "--threads 0"
		if t.variable != "" {
			source = "GOMAXPROCS"
		}
	}
	available, limit := float64(t.affinity), fmt.Sprintf("%d CPUs", t.affinity)
	if t.quota > 0 && t.quota < available {
		available, limit = t.quota, fmt.Sprintf("%.4g CPUs, the limit of its control group (%d CPUs on the machine)", t.quota, t.affinity)
	}
	detail := fmt.Sprintf("%d threads (%s) on %s", used, source, limit)
	if most := max(int(math.Ceil(available)), 1); used > most {
		fix := fmt.Sprintf("set --threads %d: threads that wait for CPU time delay the others at the end of each operation", most)
		if source == "GOMAXPROCS" {
			fix += "; unset GOMAXPROCS"
		}
		return []Finding{{"threads", Warning, detail, fix}}
	}
	if most, err := strconv.Atoi(t.openMP); err == nil && 0 < most && most < used {
		return []Finding{{"threads", Warning, fmt.Sprintf("%s, of which OMP_THREAD_LIMIT=%d allows %d", detail, most, most), "unset OMP_THREAD_LIMIT"}}
	}
	return []Finding{{"threads", OK, detail, ""}}
}
