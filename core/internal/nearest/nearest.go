package nearest

// longest bounds the words compared, so that a giant text costs nothing.
const longest = 64

// Of is the candidate with the fewest single-letter edits from word, the first of equals, when at most a third of the
// word (and one letter at least) differs.
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

// edits is the Levenshtein distance in bytes, or limit when the lengths alone rule out less.
func edits(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
