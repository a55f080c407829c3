package nearest

// longest bounds the words compared, so that a giant text costs nothing.
const longest = 64

// Of is the candidate with the fewest single-letter edits from word, the first of equals, when at most a third of the
// word (and one letter at least) differs. Two neighbours that changed places are one edit: no slip of the fingers is commoner.
func Of(word string, candidates []string) (string, bool) {
	if word == "" || len(word) > longest {
		return "", false
	}
	best, fewest := "", max(1, len(word)/3)+1
	for _, c := range candidates {
		if d := edits(word, c, fewest); d < fewest {
			best, fewest = c, d
		}
	}
	return best, best != ""
}

// edits counts the bytes that are added, left out, replaced or swapped with their neighbour, or is limit when the lengths alone
// rule out less.
func edits(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, above, row = above, row, before
		row[0] = i + 1
		for j := range len(b) {
			replaced := above[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(replaced, above[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
