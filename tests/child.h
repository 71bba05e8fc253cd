// Work in a process of its own: what a test has to do with another user, another environment, or a death.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

namespace smla_test {

struct ChildResult {
  int exit_code = -1;  // 0: the work returned; 1: it threw; 128 + signal: it was killed
  std::string output;  // what the work returned, or the message of what it threw
};

// A child that has been started. `wait` reads what it says and collects it; call it once.
class Child {
 public:
  template <class Work>
  explicit Child(Work&& work) {
    int ends[2];
    if (pipe(ends) != 0) return;
    std::fflush(nullptr);  // else buffered text would be written twice
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      int code = 0;
      std::string said;
      try {
        said = work();
      } catch (const std::exception& error) {
        said = error.what();
        code = 1;
      }
      for (std::size_t sent = 0; sent < said.size();) {
        const auto count = write(ends[1], said.data() + sent, said.size() - sent);
        if (count <= 0) break;
        sent += static_cast<std::size_t>(count);
      }
      _exit(code);
    }
    close(ends[1]);
    output_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  Child(Child&& other) noexcept : pid_(other.pid_), output_(other.output_) {
    other.pid_ = other.output_ = -1;
  }
  ~Child() {
    if (pid_ > 0) wait();
  }

  pid_t pid() const { return pid_; }

  ChildResult wait() {
    ChildResult result;
    char bytes[4096];
    for (ssize_t count = 0; (count = read(output_, bytes, sizeof bytes)) > 0;) {
      result.output.append(bytes, static_cast<std::size_t>(count));
    }
    close(output_);
    int status = 0;
    if (pid_ > 0 && waitpid(pid_, &status, 0) == pid_) {
      result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    pid_ = output_ = -1;
    return result;
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

// `work` returns a std::string; it runs in the child, its answer comes back.
template <class Work>
ChildResult in_child(Work&& work) {
  return Child(std::forward<Work>(work)).wait();
}

}  // namespace smla_test
