#include <signal.h>
#include <sys/time.h>
extern int PyGILState_Check(void);
volatile long held, asked;
static void ask(int number) { asked++; held += PyGILState_Check(); }
void every(int microseconds) {
    struct sigaction action = {.sa_handler = ask, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    if (microseconds) sigaction(SIGPROF, &action, 0);
    setitimer(ITIMER_PROF, &timer, 0);
}
